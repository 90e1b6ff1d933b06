/* What runs between two steps of a training program, compiled: module injector.probe._native.

   A hook in Python touches some thirty objects, which a training step has pushed out of the processor's
   caches in the meantime: that is what it costs, not its instructions. Here it touches a few lines of
   memory. ../plain.py is the same in Python, for where this cannot be compiled, and the reference: both have
   to pass the same tests. */

#ifndef INJECTOR_NATIVE_H
#define INJECTOR_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#elif PY_VERSION_HEX < 0x030E0000 && defined(__has_include)
#if __has_include(<internal/pycore_frame.h>)
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#define HAS_INNER_FRAMES
#endif
#endif
#include <stdint.h>
#include <structmember.h>
#include <time.h>

/* A free-threaded build uses ../plain.py, and that under PYTHON_GIL=1 only: importing this module would
   turn the lock on in a program that was started without it. */
#ifdef Py_GIL_DISABLED
#error "relies on the global interpreter lock"
#endif

/* About the garbage collector, for all types here.

   tp_clear empties objects that cannot be reached any more. But dropping their fields may run code of the
   program, which may call the object once more. So a cleared object still works, as one that has nothing to
   ask and nowhere to write. Where a tp_clear leaves a field alone, a comment has the reason; a cycle through
   such a field is broken at another of its objects.

   __new__ without __init__ makes an object without fields, like a cleared one: its methods do nothing, and
   those of Hooks raise RuntimeError. */

/* Defines tp_traverse, tp_clear and tp_dealloc of a type by two lists of its fields: those that tp_clear
   empties, in that order, and those that it leaves until the object dies. A list is a macro:
   EACH(a) EACH(b). */
#define VISIT_FIELD(field) Py_VISIT(self->field);
#define CLEAR_FIELD(field) Py_CLEAR(self->field);
#define NO_FIELDS(EACH)
#define COLLECTED(Type, name, CLEARED, LEFT)                            \
    static int name##_traverse(Type *self, visitproc visit, void *arg)  \
    {                                                                   \
        CLEARED(VISIT_FIELD)                                            \
        LEFT(VISIT_FIELD)                                               \
        return 0;                                                       \
    }                                                                   \
    static int name##_clear(Type *self)                                 \
    {                                                                   \
        CLEARED(CLEAR_FIELD)                                            \
        return 0;                                                       \
    }                                                                   \
    static void name##_dealloc(Type *self)                              \
    {                                                                   \
        PyObject_GC_UnTrack(self);                                      \
        name##_clear(self);                                             \
        LEFT(CLEAR_FIELD)                                               \
        Py_TYPE(self)->tp_free(self);                                   \
    }
#define COLLECTED_SLOTS(name)                         \
    .tp_traverse = (traverseproc)name##_traverse,     \
    .tp_clear = (inquiry)name##_clear,                \
    .tp_dealloc = (destructor)name##_dealloc

/* Rows of four integers in mapped memory: start, end, payload, site. */
typedef struct {
    PyObject_HEAD
    Py_buffer view;       /* the memory that `at` points into; .obj is NULL if there is none */
    int64_t *at, *end;    /* the next row, and where there is no more room */
    Py_buffer open;       /* the memory of `opened` */
    int64_t *opened;      /* the site of the topmost call of each stack, for other processes */
    Py_ssize_t places;    /* how many `opened` has */
    PyObject *full;       /* full(start, end, payload, site) is called if there is no room */
    long long age;        /* changes with a fork: sites that were found before are void then */
} Rows;

/* A call that has begun and not ended. */
typedef struct {
    PyObject *owner;      /* the Call that it is of */
    int64_t site;         /* 0: it lies in another one; -1: it does not count */
    int64_t start, payload;
    PyObject *mark;       /* of the device at the start; NULL for None */
} Entry;

/* The open calls of one level in one thread. */
typedef struct {
    PyObject_HEAD
    Entry *entries;
    Py_ssize_t depth, room; /* how many are open, and how many have memory */
    Py_ssize_t number;    /* unlike that of any other stack */
    Py_ssize_t slot;      /* its place in Rows.opened */
} Stack;

/* The stacks of one level: one for each thread. */
typedef struct {
    PyObject_HEAD
    uint64_t thread;      /* the thread of `last`, the stack that was used last */
    Stack *last;
    PyObject *slot;       /* slot() gives the next stack its place in Rows.opened */
    PyObject *apart;      /* apart(): whether the task is in a call that is on no stack; NULL: none is */
} Stacks;

extern PyTypeObject Rows_Type, Stack_Type, Stacks_Type, Hooks_Type, Turns_Type, Timed_Type,
    Stored_Type, Computed_Type, Pair_Type, Nearest_Type, Delegate_Type, Path_Type, Shortcut_Type;

/* Nanoseconds, as of time.perf_counter_ns() and, divided by 1e9, time.monotonic() on Linux and macOS. */
static inline int64_t
clock_ns(void)
{
#ifdef __APPLE__
    return (int64_t)clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
#endif
}

/* Store a row; whether there was room. The site is stored last: other processes, and readers after a kill,
   take a row without one as never written. */
static inline int
rows_put(Rows *self, int64_t start, int64_t end, int64_t payload, int64_t site)
{
    int64_t *row = self->at;
    if (row == self->end) {
        return 0;
    }
    self->at = row + 4;
    row[0] = start;
    row[1] = end;
    row[2] = payload;
    __atomic_store_n(&row[3], site, __ATOMIC_RELEASE);
    return 1;
}

/* Show other processes the `site` of the topmost call of a stack. */
static inline void
rows_open(Rows *self, Py_ssize_t slot, int64_t site)
{
    if (slot >= 0 && slot < self->places) {
        self->opened[slot] = site;
    }
}

/* Store a row by `add`, or if that is NULL in `rows`; -1 with an exception set. */
int add_row(Rows *rows, PyObject *add, int64_t start, int64_t end, int64_t payload, int64_t site);

/* `add` as add_row() takes it: NULL if it is the method of `rows`, else a new reference. */
PyObject *foreign_add(Rows *rows, PyObject *add);

/* The stack of the present thread, which did not use this last, borrowed; NULL with an exception set. */
Stack *stack_of_thread(Stacks *self, uint64_t thread);

/* The present thread's stack, borrowed; NULL with an exception set. */
static inline Stack *
stacks_here(Stacks *self)
{
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (self->last != NULL && self->thread == thread) {
        return self->last;
    }
    return stack_of_thread(self, thread);
}

/* The part of a call's variables that a Path names: a new reference, NULL with an exception set. */
PyObject *path_of(PyObject *path, PyObject *const *values, Py_ssize_t count);

/* Whether `value` is a tensor of PyTorch's own class, as the functions below take it. */
int is_tensor(PyObject *value);

/* The first dimension of a tensor; 0 if it has none, -1 if that can only be found in Python. */
Py_ssize_t tensor_length(PyObject *tensor);

/* Read the only number in a tensor; whether that was possible without waiting. */
int tensor_number(PyObject *tensor, double *number);

/* Whether `function` is the shortcut for the number in a tensor, and could read it from `value`. */
int shortcut_number(PyObject *function, PyObject *value, double *number);

/* Find items and tokens at once, if these are the shortcuts for them; whether that was possible. */
int items_and_tokens(PyObject *low, PyObject *high, PyObject *const *values, Py_ssize_t count,
                     Py_ssize_t *items, Py_ssize_t *tokens);

/* Begin a call; takes the reference to `mark`. -1 with an exception set. */
int stack_push(Stack *self, PyObject *owner, int64_t site, int64_t start, int64_t payload,
               PyObject *mark);

/* The topmost call, or NULL. */
static inline Entry *
stack_top(Stack *self)
{
    return self->depth ? &self->entries[self->depth - 1] : NULL;
}

/* The index of the instruction that `frame` runs, as its f_lasti. */
static inline int
frame_lasti(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return frame->f_lasti * 2;
#endif
}

/* A running frame. From Python 3.11 on a frame is an object only if something asks for that: making and
   ending one takes ten times as long as all that is read here, so Python's inner structures are read
   instead. A frame, and references to its parts, are borrowed: they are valid until code of Python runs. */
#ifdef HAS_INNER_FRAMES
typedef struct _PyInterpreterFrame Running;

/* The nearest frame, from this one outwards, that runs code: not one in the making, which has no instruction
   yet, and not one of the interpreter's own. */
static inline Running *
complete_frame(Running *frame)
{
    while (frame != NULL && _PyFrame_IsIncomplete(frame)) {
        frame = frame->previous;
    }
    return frame;
}

/* The innermost running frame, or NULL. */
static inline Running *
running_frame(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return complete_frame(PyThreadState_Get()->current_frame);
#else
    return complete_frame(PyThreadState_Get()->cframe->current_frame);
#endif
}

/* The frame that called this one, or NULL. */
static inline Running *
running_before(Running *frame)
{
    return complete_frame(frame->previous);
}

/* The code of a running frame, borrowed. */
static inline PyObject *
running_code(Running *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyObject *)_PyFrame_GetCode(frame);
#else
    return (PyObject *)frame->f_code;
#endif
}

/* The index of the instruction that it runs, as its object's f_lasti. */
static inline int
running_lasti(Running *frame)
{
    int found = _PyInterpreterFrame_LASTI(frame);
    return found < 0 ? -1 : found * (int)sizeof(_Py_CODEUNIT);
}
#else
typedef PyFrameObject Running;

static inline Running *
running_frame(void)
{
    return PyEval_GetFrame();
}

static inline Running *
running_before(Running *frame)
{
    PyFrameObject *before = PyFrame_GetBack(frame);
    Py_XDECREF(before); /* it is kept by what runs */
    return before;
}

static inline PyObject *
running_code(Running *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    Py_DECREF(code);
    return (PyObject *)code;
}

static inline int
running_lasti(Running *frame)
{
    return frame_lasti(frame);
}
#endif

/* Whether `frame` is at the instruction `lasti` of `code`. */
static inline int
frame_is_at(PyFrameObject *frame, PyObject *code, int lasti)
{
    PyCodeObject *its = PyFrame_GetCode(frame);
    int same = (PyObject *)its == code;
    Py_DECREF(its);
    return same && frame_lasti(frame) == lasti;
}

/* The exception that is set: a new reference. It is not set any more. */
static inline PyObject *
taken_error(void)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL) {
        PyException_SetTraceback(error, trace);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
}

/* Clear the exception that is set; 0 with it still set if it is no Exception: an interrupt is the
   program's. */
static inline int
forgotten(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
        return 0;
    }
    PyErr_Clear();
    return 1;
}

#define NONE_IF_NULL(object) ((object) == NULL ? Py_None : (PyObject *)(object))

/* An optional argument: NULL for None, else a new reference. */
static inline PyObject *
kept(PyObject *given)
{
    return given == Py_None ? NULL : Py_NewRef(given);
}

#endif
