/* What runs between two steps of a training program, compiled: module injector.probe._native.

   A hook in Python touches some thirty objects, which a training step has pushed out of the processor's
   caches in the meantime; that, not its instructions, is what it costs. Here it touches a few lines of
   memory. ../plain.py says the same in Python, for where this could not be compiled, and is the
   reference: each of the two has to pass the same tests. */

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

/* A free-threaded build has ../plain.py, which is probed with under PYTHON_GIL=1 only: importing this
   would put the lock on in a program that was started without it. */
#ifdef Py_GIL_DISABLED
#error "relies on the global interpreter lock"
#endif

/* About the garbage collector, for all types here.

   tp_clear empties objects that cannot be reached any more; but what such an object lets go of may run
   code of a program, which may call the object once more. So a cleared object works: as one that has
   nothing to ask and nowhere to write. What a tp_clear leaves alone, it says, with the reason; a cycle
   through such a field is broken at another of its objects.

   __new__ without __init__ gives an object that has nothing yet, which is no more than a cleared one
   has: its methods do nothing, those of Hooks raise RuntimeError. */

/* What the collector and the end of an object call, of two lists of its fields: those that tp_clear empties,
   in that order, and those that it leaves alone until the object dies. A list is a macro, EACH(a) EACH(b). */
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
    Py_buffer view;       /* the memory that `at` points into; .obj is NULL where there is none */
    int64_t *at, *end;
    Py_buffer open;       /* see `opened` */
    int64_t *opened;      /* for each stack of calls, the site of its topmost one */
    Py_ssize_t places;
    PyObject *full;       /* called with a row that has no room */
    long long age;        /* sites are good for as long as this stays the same: until a fork */
} Rows;

/* A call that has begun and not ended. */
typedef struct {
    PyObject *owner;      /* the Call that it is of */
    int64_t site;         /* 0: inside of another one; -1: it does not count */
    int64_t start, payload;
    PyObject *mark;       /* of the device; NULL for None */
} Entry;

/* The open calls of one level in one thread. */
typedef struct {
    PyObject_HEAD
    Entry *entries;
    Py_ssize_t depth, room;
    Py_ssize_t number, slot;
} Stack;

/* The stacks of one level: one for each thread. */
typedef struct {
    PyObject_HEAD
    uint64_t thread;      /* whose stack `last` is */
    Stack *last;
    PyObject *slot;       /* slot() gives the next stack its place in Rows.opened */
    PyObject *apart;      /* get() of the guard's variable, once calls are open that lie on no stack */
} Stacks;

extern PyTypeObject Rows_Type, Stack_Type, Stacks_Type, Hooks_Type, Turns_Type, Timed_Type,
    Stored_Type, Computed_Type, Pair_Type, Nearest_Type, Delegate_Type, Path_Type, Shortcut_Type;

/* As time.perf_counter_ns() and, divided by 1e9, time.monotonic() on Linux and macOS. */
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

/* Whether there was room. The site is stored last: a row without one was never written. */
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

static inline void
rows_open(Rows *self, Py_ssize_t slot, int64_t site)
{
    if (slot >= 0 && slot < self->places) {
        self->opened[slot] = site;
    }
}

/* Add a row through `add`, which is NULL for that of `rows`. -1 with an exception set. */
int add_row(Rows *rows, PyObject *add, int64_t start, int64_t end, int64_t payload, int64_t site);

/* `add` as add_row wants it: a new reference, or NULL where it is that of `rows`. */
PyObject *foreign_add(Rows *rows, PyObject *add);

/* The stack of a thread that was not the last to ask, borrowed; NULL with an exception set. */
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

/* What a Path gives of a call's variables: a new reference, NULL with an exception set. */
PyObject *path_of(PyObject *path, PyObject *const *values, Py_ssize_t count);

/* Whether `value` is a tensor of PyTorch's own class, which the functions below are about. */
int is_tensor(PyObject *value);

/* How many it holds in its first dimension; 0 where it has none, -1 where that is to be found otherwise. */
Py_ssize_t tensor_length(PyObject *tensor);

/* Whether it holds one number, which is at hand. */
int tensor_number(PyObject *tensor, double *number);

/* Whether `function` is the shortcut to the number in a tensor, and finds it in `value`. */
int shortcut_number(PyObject *function, PyObject *value, double *number);

/* What the shortcuts to items and tokens give, where both are found at once; else 0. */
int items_and_tokens(PyObject *low, PyObject *high, PyObject *const *values, Py_ssize_t count,
                     Py_ssize_t *items, Py_ssize_t *tokens);

/* Begin a call; takes the reference to `mark`. -1 with an exception set. */
int stack_push(Stack *self, PyObject *owner, int64_t site, int64_t start, int64_t payload,
               PyObject *mark);

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

/* A frame of Python's that runs. From 3.11 on Python makes an object for one only where it is looked at:
   that, and its end, take ten times as long as all that is looked at here. Each is valid as long as no
   code of Python has run since, and so are the references to what it has, which are borrowed. */
#ifdef HAS_INNER_FRAMES
typedef struct _PyInterpreterFrame Running;

static inline Running *
complete_frame(Running *frame)
{
    while (frame != NULL && _PyFrame_IsIncomplete(frame)) {
        frame = frame->previous;
    }
    return frame;
}

static inline Running *
running_frame(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return complete_frame(PyThreadState_Get()->current_frame);
#else
    return complete_frame(PyThreadState_Get()->cframe->current_frame);
#endif
}

static inline Running *
running_before(Running *frame)
{
    return complete_frame(frame->previous);
}

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

/* Whether `frame` is at instruction `lasti` of `code`. */
static inline int
frame_is_at(PyFrameObject *frame, PyObject *code, int lasti)
{
    PyCodeObject *its = PyFrame_GetCode(frame);
    int same = (PyObject *)its == code;
    Py_DECREF(its);
    return same && frame_lasti(frame) == lasti;
}

/* The exception that is set, which is not set any more: a new reference. */
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

/* Forget the exception that is set, unless it is no Exception: an interrupt is the program's. */
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

/* Of an argument that is optional: NULL for None, else a new reference. */
static inline PyObject *
kept(PyObject *given)
{
    return given == Py_None ? NULL : Py_NewRef(given);
}

#endif
