/* Calls of C functions that may block: those that take long are recorded.

   A lock, a socket, time.sleep are written in C, and everything in the standard library that waits ends
   in one of a few such functions. Python calls one through its PyMethodDef: this exchanges the address
   that stands there. No object of Python is changed: not its identity, its type, its name, how it is
   pickled. A call that is over soon costs two looks at the clock; an uncontended lock costs none. */

#include "native.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 48
#define LARGEST 10000

enum { ANY, LOCK, FILE_SELF, FILE_FIRST };

typedef union {
    PyCFunction one; /* of METH_NOARGS, METH_O, METH_VARARGS */
    PyCFunctionWithKeywords keys;
    PyObject *(*fast)(PyObject *, PyObject *const *, Py_ssize_t);
    PyObject *(*names)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    PyObject *(*method)(PyObject *, PyTypeObject *, PyObject *const *, Py_ssize_t, PyObject *);
} Function;

static struct {
    PyMethodDef *definition;
    Function was;
    int kind;
} timed[MOST];
static int count;

static Rows *rows; /* NULL: nothing is recorded */
static PyObject *near, *find, *failed, *known;
static PyInterpreterState *home;
static int64_t least;
static __thread int busy;

static int
raised_later(void *error)
{
    PyErr_SetObject((PyObject *)Py_TYPE((PyObject *)error), (PyObject *)error);
    Py_DECREF((PyObject *)error);
    return -1;
}

/* Whether `file`, a number or io.FileIO, is of a file system: reading one is work, not waiting. */
static int
is_stored(PyObject *file)
{
    struct stat about;
    int descriptor = -1;
    /* Of nothing else: a class of the program's may run its own code for that. */
    if (file != NULL && (PyLong_CheckExact(file) || !strcmp(Py_TYPE(file)->tp_name, "_io.FileIO"))) {
        descriptor = PyObject_AsFileDescriptor(file);
        PyErr_Clear();
    }
    return descriptor >= 0 && fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
}

/* The site of a wait that `inner` called, borrowed from what is known or looked up; 0 for none, -1 with
   an exception set. */
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
    if (answer == Py_None) { /* not now */
        site = 0;
        goto done;
    }
    site = PyLong_AsLongLong(answer);
    if (site == -1 && PyErr_Occurred()) {
        goto done;
    }
    if (site < 0) { /* of this wait alone */
        site = -site;
        goto done;
    }
    if (PyDict_GET_SIZE(known) >= LARGEST) {
        PyDict_Clear(known);
    }
    kept = PyTuple_Pack(3, answer, code, inside); /* the codes stay alive with their addresses */
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

static int
record(int slot, int64_t start, int64_t end)
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

/* A call has waited; it may have raised: that is not changed. */
static void
waited(int slot, PyObject *file, int64_t start, int64_t end)
{
    if (busy || PyInterpreterState_Get() != home) {
        return;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    busy = 1;
    int stored = timed[slot].kind >= FILE_SELF && is_stored(file);
    if (!stored && record(slot, start, end) < 0) {
        PyObject *error = taken_error();
        PyObject *ours = error == NULL ? NULL : PyObject_CallOneArg(failed, error);
        Py_XDECREF(error);
        if (ours == NULL) {
            /* What a signal's handler raised meanwhile is the program's: it comes right after this
               call, whose result (a lock that is held now) must not be lost. */
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

#define TIMED(slot, file, call)                                                                        \
    do {                                                                                               \
        if (rows == NULL) {                                                                            \
            return call;                                                                               \
        }                                                                                              \
        int64_t start = clock_ns();                                                                    \
        PyObject *result = call;                                                                       \
        int64_t end = clock_ns();                                                                      \
        if (end - start >= least && rows != NULL) {                                                    \
            waited(slot, file, start, end);                                                            \
        }                                                                                              \
        return result;                                                                                 \
    } while (0)

static PyObject *not_blocking; /* (False,) */

static PyObject *
timed_one(int slot, PyObject *self, PyObject *argument)
{
    TIMED(slot, self, timed[slot].was.one(self, argument));
}

static PyObject *
timed_keys(int slot, PyObject *self, PyObject *args, PyObject *names)
{
    Function was = timed[slot].was;
    if (rows != NULL && timed[slot].kind == LOCK && PyTuple_GET_SIZE(args) == 0 && names == NULL) {
        /* What acquiring a lock begins with: to see whether it is free. */
        PyObject *got = was.keys(self, not_blocking, NULL);
        if (got != Py_False) {
            return got;
        }
        Py_DECREF(got);
    }
    TIMED(slot, self, was.keys(self, args, names));
}

static PyObject *
timed_fast(int slot, PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *file = timed[slot].kind == FILE_SELF ? self : n ? args[0] : NULL;
    TIMED(slot, file, timed[slot].was.fast(self, args, n));
}

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

static PyObject *
timed_method(int slot, PyObject *self, PyTypeObject *of, PyObject *const *args, Py_ssize_t n,
             PyObject *names)
{
    TIMED(slot, self, timed[slot].was.method(self, of, args, n, names));
}

/* A function of each convention for each place in `timed`: nothing else says which one was called. */
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
/* In octal, two digits each. */
#define EIGHT(do, n) do(n##0) do(n##1) do(n##2) do(n##3) do(n##4) do(n##5) do(n##6) do(n##7)
#define ALL(do) EIGHT(do, 0) EIGHT(do, 1) EIGHT(do, 2) EIGHT(do, 3) EIGHT(do, 4) EIGHT(do, 5)

ALL(EACH)
static const Function instead[MOST][5] = {ALL(ENTRY)};

/* Which of the five conventions; -1 for none that is known. */
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

static int
writable(void *at, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)at / page * page;
    return mprotect((void *)first, (uintptr_t)at + size - first, PROT_READ | PROT_WRITE) == 0;
}

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
