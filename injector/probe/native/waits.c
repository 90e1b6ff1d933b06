/* Calls of C functions that may block: those that take long are recorded.

   Everything in the standard library that waits calls one of a few functions in C in the end, such as those
   of locks, sockets and time.sleep. Python calls such a function through its PyMethodDef; this replaces the
   address there. No object of Python is changed, so identity, type, name and pickling stay the same. A call
   that ends soon costs two readings of the clock, and an uncontended lock none. */

#include "native.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 48       /* functions that are timed: see ALL(), which makes so many of each convention */
#define LARGEST 10000 /* sites that are known at most */

enum { ANY, LOCK, FILE_SELF, FILE_FIRST }; /* see time_calls in waits_methods */

/* A function of one of the calling conventions of C functions. */
typedef union {
    PyCFunction one; /* of METH_NOARGS, METH_O, METH_VARARGS */
    PyCFunctionWithKeywords keys;
    PyObject *(*fast)(PyObject *, PyObject *const *, Py_ssize_t);
    PyObject *(*names)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    PyObject *(*method)(PyObject *, PyTypeObject *, PyObject *const *, Py_ssize_t, PyObject *);
} Function;

static struct {
    PyMethodDef *definition;
    Function was;         /* the function that it had */
    int kind;
} timed[MOST];
static int count;

static Rows *rows; /* NULL: nothing is recorded */
static PyObject *near, *find, *failed; /* see record_waits in waits_methods */
static PyObject *known;           /* sites by where a wait was called: (site, code, inner code) */
static PyInterpreterState *home;  /* waits in other interpreters are not recorded */
static int64_t least;             /* nanoseconds of a call that is recorded */
static __thread int busy;         /* whether this thread records a wait: what that calls may wait, too */

/* Raise an error at the next occasion: a pending call of Python. */
static int
raised_later(void *error)
{
    PyErr_SetObject((PyObject *)Py_TYPE((PyObject *)error), (PyObject *)error);
    Py_DECREF((PyObject *)error);
    return -1;
}

/* Whether `file`, a number or an io.FileIO, is a regular file: reading one is work, not waiting. */
static int
is_stored(PyObject *file)
{
    struct stat about;
    int descriptor = -1;
    /* Only of these two: for the descriptor of another class, the program's own code may run. */
    if (file != NULL && (PyLong_CheckExact(file) || !strcmp(Py_TYPE(file)->tp_name, "_io.FileIO"))) {
        descriptor = PyObject_AsFileDescriptor(file);
        PyErr_Clear();
    }
    return descriptor >= 0 && fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
}

/* The site of a wait, in the function `inner` that frame `outer` of the program has called, from what is
   known or by find(); 0 for none, -1 with an exception set. */
static int64_t
site_of(int slot, PyFrameObject *inner, PyFrameObject *outer)
{
    PyCodeObject *inside = PyFrame_GetCode(inner), *code = PyFrame_GetCode(outer);
    int64_t site = -1;
    PyObject *answer = NULL, *kept = NULL;
    PyObject *key = Py_BuildValue("nninnk", (Py_ssize_t)code, (Py_ssize_t)inside, slot,
                                  (Py_ssize_t)frame_lasti(outer), (Py_ssize_t)frame_lasti(inner),
                                  PyThread_get_thread_ident());
    if (key == NULL) {
        goto done;
    }
    PyObject *found = PyDict_GetItemWithError(known, key);
    if (found != NULL) {
        site = PyLong_AsLongLong(PyTuple_GET_ITEM(found, 0));
        goto done;
    }
    if (PyErr_Occurred()) {
        goto done;
    }
    answer = PyObject_CallFunction(find, "OOs", inner, outer, timed[slot].definition->ml_name);
    if (answer == NULL) {
        goto done;
    }
    if (answer == Py_None) { /* it does not count now, but may later */
        site = 0;
        goto done;
    }
    site = PyLong_AsLongLong(answer);
    if (site == -1 && PyErr_Occurred()) {
        goto done;
    }
    if (site < 0) { /* it is the site of this wait alone */
        site = -site;
        goto done;
    }
    if (PyDict_GET_SIZE(known) >= LARGEST) {
        PyDict_Clear(known);
    }
    kept = PyTuple_Pack(3, answer, code, inside); /* codes whose addresses are keys have to stay alive */
    if (kept == NULL || PyDict_SetItem(known, key, kept) < 0) {
        site = -1;
    }
done:
    Py_XDECREF(kept);
    Py_XDECREF(answer);
    Py_XDECREF(key);
    Py_DECREF(code);
    Py_DECREF(inside);
    return site;
}

/* Write the row of a wait; -1 with an exception set. */
static int
record_wait(int slot, int64_t start, int64_t end)
{
    PyFrameObject *inner = PyEval_GetFrame();
    if (inner == NULL) {
        return 0;
    }
    Py_INCREF(inner);
    PyObject *outer = PyObject_CallOneArg(near, (PyObject *)inner);
    int done = -1;
    if (outer != NULL) {
        int64_t site =
            site_of(slot, inner, PyFrame_Check(outer) ? (PyFrameObject *)outer : inner);
        done = site < 0 ? -1 : 0;
        if (site > 0 && rows != NULL) {
            done = add_row(rows, NULL, start, end, 0, site);
        }
        Py_DECREF(outer);
    }
    Py_DECREF(inner);
    return done;
}

/* Record a call that has taken long, with the exception set aside that it may have raised. */
static void
record_if_waiting(int slot, PyObject *file, int64_t start, int64_t end)
{
    if (busy || PyInterpreterState_Get() != home) {
        return;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    busy = 1;
    int stored = timed[slot].kind >= FILE_SELF && is_stored(file);
    if (!stored && record_wait(slot, start, end) < 0) {
        PyObject *error = taken_error();
        PyObject *ours = error == NULL ? NULL : PyObject_CallOneArg(failed, error);
        Py_XDECREF(error);
        if (ours == NULL) {
            /* A signal's handler raised meanwhile, which is for the program. It is raised right after this
               call, whose result must not be lost: a lock is held now. */
            error = taken_error();
            if (error != NULL && Py_AddPendingCall(raised_later, error) < 0) {
                Py_DECREF(error);
            }
        }
        Py_XDECREF(ours);
    }
    busy = 0;
    PyErr_Restore(type, value, trace);
}

/* The body of a function that calls another one, `call`, and measures how long that takes. */
#define TIMED(slot, file, call)                                                                        \
    do {                                                                                               \
        if (rows == NULL) {                                                                            \
            return call;                                                                               \
        }                                                                                              \
        int64_t start = clock_ns();                                                                    \
        PyObject *result = call;                                                                       \
        int64_t end = clock_ns();                                                                      \
        if (end - start >= least && rows != NULL) {                                                    \
            record_if_waiting(slot, file, start, end);                                                 \
        }                                                                                              \
        return result;                                                                                 \
    } while (0)

static PyObject *not_blocking; /* (False,) */

/* Time a call of METH_NOARGS, METH_O or METH_VARARGS. */
static PyObject *
timed_one(int slot, PyObject *self, PyObject *argument)
{
    TIMED(slot, self, timed[slot].was.one(self, argument));
}

/* Time a call of METH_VARARGS | METH_KEYWORDS. */
static PyObject *
timed_keys(int slot, PyObject *self, PyObject *args, PyObject *names)
{
    Function was = timed[slot].was;
    if (rows != NULL && timed[slot].kind == LOCK && PyTuple_GET_SIZE(args) == 0 && names == NULL) {
        /* Acquiring a lock begins so in any case: with a try whether it is free, which needs no clock. */
        PyObject *got = was.keys(self, not_blocking, NULL);
        if (got != Py_False) {
            return got;
        }
        Py_DECREF(got);
    }
    TIMED(slot, self, was.keys(self, args, names));
}

/* Time a call of METH_FASTCALL. */
static PyObject *
timed_fast(int slot, PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *file = timed[slot].kind == FILE_SELF ? self : n ? args[0] : NULL;
    TIMED(slot, file, timed[slot].was.fast(self, args, n));
}

/* Time a call of METH_FASTCALL | METH_KEYWORDS. */
static PyObject *
timed_names(int slot, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Function was = timed[slot].was;
    if (rows != NULL && timed[slot].kind == LOCK && n == 0 && names == NULL) {
        PyObject *got = was.names(self, &PyTuple_GET_ITEM(not_blocking, 0), 1, NULL);
        if (got != Py_False) {
            return got;
        }
        Py_DECREF(got);
    }
    PyObject *file = timed[slot].kind == FILE_SELF ? self : n ? args[0] : NULL;
    TIMED(slot, file, was.names(self, args, n, names));
}

/* Time a call of METH_METHOD | METH_FASTCALL | METH_KEYWORDS. */
static PyObject *
timed_method(int slot, PyObject *self, PyTypeObject *of, PyObject *const *args, Py_ssize_t n,
             PyObject *names)
{
    TIMED(slot, self, timed[slot].was.method(self, of, args, n, names));
}

/* Functions of each convention for each slot of `timed`: a function has no other way to know its slot. */
#define EACH(slot)                                                                                     \
    static PyObject *one_##slot(PyObject *s, PyObject *a) { return timed_one(0##slot, s, a); }         \
    static PyObject *keys_##slot(PyObject *s, PyObject *a, PyObject *k)                                \
    {                                                                                                  \
        return timed_keys(0##slot, s, a, k);                                                           \
    }                                                                                                  \
    static PyObject *fast_##slot(PyObject *s, PyObject *const *a, Py_ssize_t n)                        \
    {                                                                                                  \
        return timed_fast(0##slot, s, a, n);                                                           \
    }                                                                                                  \
    static PyObject *names_##slot(PyObject *s, PyObject *const *a, Py_ssize_t n, PyObject *k)          \
    {                                                                                                  \
        return timed_names(0##slot, s, a, n, k);                                                       \
    }                                                                                                  \
    static PyObject *method_##slot(PyObject *s, PyTypeObject *t, PyObject *const *a, Py_ssize_t n,     \
                                   PyObject *k)                                                        \
    {                                                                                                  \
        return timed_method(0##slot, s, t, a, n, k);                                                   \
    }
#define ENTRY(slot)                                                                                    \
    {{.one = one_##slot}, {.keys = keys_##slot}, {.fast = fast_##slot}, {.names = names_##slot},       \
     {.method = method_##slot}},
/* The slots are numbers in octal of two digits, so that pasting digits together makes them. */
#define EIGHT(do, n) do(n##0) do(n##1) do(n##2) do(n##3) do(n##4) do(n##5) do(n##6) do(n##7)
#define ALL(do) EIGHT(do, 0) EIGHT(do, 1) EIGHT(do, 2) EIGHT(do, 3) EIGHT(do, 4) EIGHT(do, 5)

ALL(EACH)
static const Function instead[MOST][5] = {ALL(ENTRY)};

/* The index of a calling convention in `instead`; -1 for an unknown one. */
static int
convention(int flags)
{
    switch (flags & ~(METH_CLASS | METH_STATIC | METH_COEXIST)) {
    case METH_NOARGS:
    case METH_O:
    case METH_VARARGS:
        return 0;
    case METH_VARARGS | METH_KEYWORDS:
        return 1;
    case METH_FASTCALL:
        return 2;
    case METH_FASTCALL | METH_KEYWORDS:
        return 3;
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS:
        return 4;
    default:
        return -1;
    }
}

/* Make the memory at an address writable: definitions of functions may lie in constant memory. */
static int
writable(void *at, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)at / page * page;
    return mprotect((void *)first, (uintptr_t)at + size - first, PROT_READ | PROT_WRITE) == 0;
}

/* Time the calls of a function from now on; see waits_methods. */
static PyObject *
time_calls(PyObject *module, PyObject *args)
{
    PyObject *function;
    int kind;
    if (!PyArg_ParseTuple(args, "Oi:time_calls", &function, &kind)) {
        return NULL;
    }
    PyMethodDef *definition = NULL;
    if (PyCFunction_Check(function)) {
        definition = ((PyCFunctionObject *)function)->m_ml;
    } else if (Py_IS_TYPE(function, &PyMethodDescr_Type)) {
        definition = ((PyMethodDescrObject *)function)->d_method;
    }
    int how = definition == NULL ? -1 : convention(definition->ml_flags);
    for (int each = 0; each < count; each++) {
        if (timed[each].definition == definition) {
            Py_RETURN_TRUE;
        }
    }
    if (how < 0 || count == MOST || !writable(definition, sizeof *definition)) {
        Py_RETURN_FALSE;
    }
    timed[count].definition = definition;
    timed[count].was.one = definition->ml_meth;
    timed[count].kind = kind;
    definition->ml_meth = instead[count][how].one;
    count++;
    Py_RETURN_TRUE;
}

/* Begin to record waits, or stop; see waits_methods. */
static PyObject *
record_waits(PyObject *module, PyObject *args)
{
    PyObject *where, *nearest, *site, *mistaken;
    long long threshold;
    if (!PyArg_ParseTuple(args, "OOOOL:record_waits", &where, &nearest, &site, &mistaken, &threshold)) {
        return NULL;
    }
    if (where != Py_None && !Py_IS_TYPE(where, &Rows_Type)) {
        PyErr_SetString(PyExc_TypeError, "the first argument is Rows or None");
        return NULL;
    }
    PyObject *fresh = PyDict_New();
    if (not_blocking == NULL) {
        not_blocking = PyTuple_Pack(1, Py_False);
    }
    if (fresh == NULL || not_blocking == NULL) {
        Py_XDECREF(fresh);
        return NULL;
    }
    Rows *before = rows;
    rows = NULL;
    Py_XSETREF(known, fresh);
    Py_XSETREF(near, Py_NewRef(nearest));
    Py_XSETREF(find, Py_NewRef(site));
    Py_XSETREF(failed, Py_NewRef(mistaken));
    home = PyInterpreterState_Get();
    least = threshold;
    rows = (Rows *)kept(where);
    Py_XDECREF((PyObject *)before);
    Py_RETURN_NONE;
}

PyMethodDef waits_methods[] = {
    {"time_calls", time_calls, METH_VARARGS,
     "time_calls(function, kind): measure the calls of a C function or method, from wherever;\n"
     "whether that can be done. Kinds: 0, 1 a lock, 2 self is a file, 3 its first argument is one."},
    {"record_waits", record_waits, METH_VARARGS,
     "record_waits(rows, near, find, failed, least): record calls of at least so many nanoseconds there.\n"
     "near(frame) gives the program's frame; find(frame, near, name) the site, 0 for one that does not\n"
     "count, None for one that does not count now, minus a site for this wait alone. What they raise is\n"
     "given to failed(error), which raises what is the program's. With rows None nothing is recorded any more."},
    {NULL},
};
