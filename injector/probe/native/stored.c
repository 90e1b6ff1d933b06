/* A hook that stores numbers, with their times, in mapped memory that another process reads. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    Py_buffer times_view, values_view; /* the memory of `times` and `values` */
    double *times, *values;
    Py_ssize_t index, room;   /* how many are stored there, and how many have room */
    long long before;         /* values that are not stored there: earlier ones, or no numbers */
    PyObject *number;         /* number(value) makes a float of anything else, or None */
} Stored;

static PyObject *word_full, *word_failed;

/* Store a value with the present time; whether there was room. */
static int
store(Stored *self, double value)
{
    Py_ssize_t at = self->index;
    if (at == self->room) {
        return 0;
    }
    self->index = at + 1;
    self->values[at] = value;
    /* The time last: a value whose time is 0 is taken as never written. */
    double now = (double)clock_ns() / 1e9;
    uint64_t bits;
    memcpy(&bits, &now, sizeof bits);
    __atomic_store_n((uint64_t *)&self->times[at], bits, __ATOMIC_RELEASE);
    return 1;
}

/* put() for callers in Python. */
static PyObject *
stored_put(Stored *self, PyObject *value)
{
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
        return NULL;
    }
    return PyBool_FromLong(store(self, number));
}

/* Call a method of the derived class; -1 with an exception set, which is the program's. */
static int
call_method(Stored *self, PyObject *method, PyObject *given)
{
    PyObject *args[] = {(PyObject *)self, given};
    PyObject *done = PyObject_VectorcallMethod(method, args, 2, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Whether a value is a number of Python's own, or a bool. */
static int
is_number(PyObject *value)
{
    return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value);
}

/* Have failed() report the exception that is set; -1 if it raises the program's own. */
static int
failed(Stored *self)
{
    PyObject *error = taken_error();
    self->before++;
    int raised = call_method(self, word_failed, error);
    Py_DECREF(error);
    return raised;
}

/* Store a number, by full() if there is no room; -1 with an exception set. */
static int
take_number(Stored *self, double number)
{
    if (store(self, number)) {
        return 0;
    }
    PyObject *boxed = PyFloat_FromDouble(number);
    int raised = boxed == NULL ? -1 : call_method(self, word_full, boxed);
    Py_XDECREF(boxed);
    return raised;
}

/* Store a number of Python's; -1 with an exception set. */
static int
take(Stored *self, PyObject *value)
{
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
        return failed(self);
    }
    return take_number(self, number);
}

/* Store any value: a number, the number in a tensor, or what number() makes of it; -1 with an exception
   set. */
static int
take_any(Stored *self, PyObject *value)
{
    if (is_number(value)) {
        return take(self, value);
    }
    double read;
    if (is_tensor(value) && tensor_number(value, &read)) {
        return take_number(self, read);
    }
    if (self->number == NULL) { /* cleared, or never initialised */
        self->before++;
        return 0;
    }
    PyObject *found = PyObject_CallOneArg(self->number, value);
    if (found == NULL) {
        return failed(self);
    }
    int raised = 0;
    if (found == Py_None) {
        self->before++;
    } else {
        raised = take(self, found);
    }
    Py_DECREF(found);
    return raised;
}

/* The hook: store the value, and return it. */
static PyObject *
stored_hook(Stored *self, PyObject *value)
{
    return take_any(self, value) < 0 ? NULL : Py_NewRef(value);
}

/* Stored(number). */
static int
stored_init(Stored *self, PyObject *args, PyObject *keywords)
{
    PyObject *number;
    if (!PyArg_ParseTuple(args, "O:Stored", &number)) {
        return -1;
    }
    Py_XSETREF(self->number, Py_NewRef(number));
    return 0;
}

/* Have `given` lend its memory; -1 with an exception set. */
static int
borrow_memory(Py_buffer *view, PyObject *given)
{
    return PyObject_GetBuffer(given, view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS);
}

/* Release the memory in use, and count its values as stored before. */
static void
release_memory(Stored *self)
{
    Py_buffer times = self->times_view, values = self->values_view;
    self->times_view = self->values_view = (Py_buffer){0};
    self->before += self->index;
    self->index = self->room = 0;
    PyBuffer_Release(&times); /* last: see exchange() in rows.c */
    PyBuffer_Release(&values);
}

/* Store in other memory, or nowhere. */
static PyObject *
stored_use(Stored *self, PyObject *args)
{
    PyObject *times, *values;
    if (!PyArg_ParseTuple(args, "OO:use", &times, &values)) {
        return NULL;
    }
    release_memory(self);
    if (times == Py_None) {
        Py_RETURN_NONE;
    }
    Py_buffer fresh = {0}, other = {0};
    if (borrow_memory(&fresh, times) < 0 || borrow_memory(&other, values) < 0) {
        PyBuffer_Release(&fresh);
        return NULL;
    }
    release_memory(self); /* lending may run code that has called use() meanwhile */
    self->times_view = fresh;
    self->values_view = other;
    self->times = self->times_view.buf;
    self->values = self->values_view.buf;
    self->room = Py_MIN(self->times_view.len, self->values_view.len) / (Py_ssize_t)sizeof(double);
    Py_RETURN_NONE;
}

/* All values so far. */
static PyObject *
stored_fired(Stored *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->before + self->index);
}

/* Show the collector number() alone: for the views, see rows_traverse(). */
static int
stored_traverse(Stored *self, visitproc visit, void *arg)
{
    Py_VISIT(self->number);
    return 0;
}

/* Drop number(). */
static int
stored_clear(Stored *self)
{
    Py_CLEAR(self->number);
    return 0;
}

/* Release the memory with the object itself. */
static void
stored_dealloc(Stored *self)
{
    PyObject_GC_UnTrack(self);
    release_memory(self);
    stored_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef stored_methods[] = {
    {"hook", (PyCFunction)stored_hook, METH_O, "hook(value): store it; it is given back."},
    {"put", (PyCFunction)stored_put, METH_O, "put(number): store it; whether there was room."},
    {"use", (PyCFunction)stored_use, METH_VARARGS,
     "use(times, values): float64 views to store in; nowhere with None."},
    {NULL},
};

static PyGetSetDef stored_getset[] = {
    {"fired", (getter)stored_fired, NULL, "Values so far.", NULL},
    {NULL},
};

static PyMemberDef stored_members[] = {
    {"before", T_LONGLONG, offsetof(Stored, before), 0, "Values that are not in the memory in use."},
    {NULL},
};

PyTypeObject Stored_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Stored",
    .tp_doc = "Stored(number): numbers with their times, in memory that is given to it.",
    .tp_basicsize = sizeof(Stored),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)stored_init,
    .tp_traverse = (traverseproc)stored_traverse,
    .tp_clear = (inquiry)stored_clear,
    .tp_dealloc = (destructor)stored_dealloc,
    .tp_methods = stored_methods,
    .tp_members = stored_members,
    .tp_getset = stored_getset,
};

/* A hook that stores what a function computes from a call's variables. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Stored *stored;
    PyObject *get;
    char late;                /* whether `get` also takes the hook's value: what the call returned */
} Computed;

/* The hook: store get(…), and return the value. */
static PyObject *
computed_call(Computed *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "a hook takes a value");
        return NULL;
    }
    if (self->get == NULL) { /* cleared */
        return Py_NewRef(args[0]);
    }
    int skipped = !self->late;
    int raised = 0;
    double number;
    if (count - skipped == 1 && shortcut_number(self->get, args[skipped], &number)) {
        return take_number(self->stored, number) < 0 ? NULL : Py_NewRef(args[0]);
    }
    PyObject *found = PyObject_Vectorcall(self->get, args + skipped, count - skipped, NULL);
    if (found == NULL) {
        raised = failed(self->stored);
    } else if (found == Py_None) {
        self->stored->before++;
    } else {
        raised = take_any(self->stored, found);
    }
    Py_XDECREF(found);
    return raised < 0 ? NULL : Py_NewRef(args[0]);
}

/* Computed(stored, get, late). */
static PyObject *
computed_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *stored, *get;
    int late;
    if (!PyArg_ParseTuple(args, "O!Op:Computed", &Stored_Type, &stored, &get, &late)) {
        return NULL;
    }
    Computed *self = (Computed *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->call = (vectorcallfunc)computed_call;
        self->stored = (Stored *)Py_NewRef(stored);
        self->get = Py_NewRef(get);
        self->late = (char)late;
    }
    return (PyObject *)self;
}

/* `stored` is left: it counts to the end, and its own tp_clear breaks a cycle. */
#define COMPUTED_CLEARED(EACH) EACH(get)
#define COMPUTED_LEFT(EACH) EACH(stored)
COLLECTED(Computed, computed, COMPUTED_CLEARED, COMPUTED_LEFT)

PyTypeObject Computed_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Computed",
    .tp_doc = "Computed(stored, get, late): a hook that stores get(*variables); if late, of the value too.",
    .tp_basicsize = sizeof(Computed),
    .tp_vectorcall_offset = offsetof(Computed, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = computed_new,
    COLLECTED_SLOTS(computed),
};

/* Make the strings that name methods; -1 with an exception set. */
int
stored_ready(void)
{
    word_full = PyUnicode_InternFromString("full");
    word_failed = PyUnicode_InternFromString("failed");
    return word_full == NULL || word_failed == NULL ? -1 : 0;
}
