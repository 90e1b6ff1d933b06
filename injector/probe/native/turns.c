/* The loop that a loader feeds: each fetch of a batch, and each turn of the loop, becomes a row.

     Timed wraps the loader's iterator. When the loop draws, it tells its listener, usually a Turns, that the
   body of the batch before has ended ("stepped"), and that a batch was drawn ("fetched"). Turns writes the
   rows; it looks up their sites, in Python, only when another line draws than before. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    Rows *rows;
    PyObject *add;            /* add(start, end, payload, site) in place of that of rows; NULL: that one */
    PyObject *load;           /* load(batch) gives its payload: how many items it holds */
    char plain;               /* whether a batch's first dimension is its payload, if it has one */
    long long most;           /* the largest payload that fits into a row */
    PyObject *code;           /* the code of the loop that drew last; NULL: the sites are to be found */
    int lasti;                /* the instruction in it that drew */
    long long age;            /* of the rows when the sites were found: they are void after a fork */
    long long fetch, step;    /* the sites of fetches and of turns; 0: not recorded */
    int64_t payload;          /* of the batch that was drawn last: its turn has the same */
} Turns;

static PyObject *word_find, *word_ended, *word_fetched, *word_stepped, *word_stopped, *word_shape;

/* The first number in the attribute `shape` of a batch, if that is a tuple; 0 for any other object; -1
   with an exception set. */
static long long
leading(PyObject *batch)
{
    Py_ssize_t length = is_tensor(batch) ? tensor_length(batch) : -1;
    if (length >= 0) {
        return length;
    }
    PyObject *shape = PyObject_GetAttr(batch, word_shape);
    if (shape == NULL) {
        return forgotten() ? 0 : -1;
    }
    long long found = 0;
    if (PyTuple_Check(shape) && PyTuple_GET_SIZE(shape) && PyLong_Check(PyTuple_GET_ITEM(shape, 0))) {
        found = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, 0));
        if (found < 0) {
            PyErr_Clear();
            found = 0;
        }
    }
    Py_DECREF(shape);
    return found;
}

/* The payload of a batch: the first dimension of its first array if `plain`, else what load() gives; -1
   with an exception set. */
static long long
turns_load(Turns *self, PyObject *batch)
{
    if (self->plain) {
        PyObject *first = batch;
        if (PyTuple_CheckExact(batch) || PyList_CheckExact(batch)) {
            first = PySequence_Fast_GET_SIZE(batch) ? PySequence_Fast_GET_ITEM(batch, 0) : NULL;
        } else if (PyDict_CheckExact(batch)) {
            first = NULL;
        }
        long long found = first == NULL ? 0 : leading(first);
        if (found && found <= self->most) {
            return found;
        }
    }
    if (self->load == NULL) { /* cleared */
        return 0;
    }
    PyObject *found = PyObject_CallOneArg(self->load, batch);
    long long payload = found == NULL ? -1 : PyLong_AsLongLong(found);
    Py_XDECREF(found);
    return payload < 0 && !PyErr_Occurred() ? 0 : payload;
}

/* Write a row for `site`. If that raises, as at the program's last step, stopped() deals with it in
   Python; -1 with an exception set that the program shall see. */
static int
turns_add(Turns *self, int64_t start, int64_t end, long long site, PyFrameObject *frame)
{
    if (site == 0 || add_row(self->rows, self->add, start, end, self->payload, site) == 0) {
        return 0;
    }
    PyObject *error = taken_error();
    PyObject *args[] = {(PyObject *)self, error, NONE_IF_NULL(frame)};
    PyObject *done = PyObject_VectorcallMethod(word_stopped, args, 3, NULL);
    Py_DECREF(error);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Note that `frame` drew a batch. find() looks up the sites, unless the same instruction drew the batch
   before; -1 with an exception set. */
static int
turns_fetched(Turns *self, int64_t start, int64_t end, PyObject *batch, PyFrameObject *frame)
{
    if (self->rows == NULL) { /* never initialised */
        return 0;
    }
    if (self->code == NULL || self->age != self->rows->age
        || !frame_is_at(frame, self->code, self->lasti)) {
        self->age = self->rows->age;
        PyObject *args[] = {(PyObject *)self, (PyObject *)frame};
        PyObject *done = PyObject_VectorcallMethod(word_find, args, 2, NULL);
        if (done == NULL) {
            return -1;
        }
        Py_DECREF(done);
        Py_XSETREF(self->code, (PyObject *)PyFrame_GetCode(frame));
        self->lasti = frame_lasti(frame);
    }
    long long payload = turns_load(self, batch);
    if (payload < 0) {
        return -1;
    }
    self->payload = payload;
    return turns_add(self, start, end, self->fetch, frame);
}

/* Note the end of the body that a batch was for, unless it began before a fork, when it was the parent's;
   -1 with an exception set. */
static int
turns_stepped(Turns *self, int64_t start, int64_t end, PyFrameObject *frame)
{
    if (self->rows == NULL || self->age != self->rows->age) {
        return 0;
    }
    return turns_add(self, start, end, self->step, frame);
}

/* fetched() for callers in Python. */
static PyObject *
turns_fetched_method(Turns *self, PyObject *args)
{
    long long start, end;
    PyObject *batch, *frame;
    if (!PyArg_ParseTuple(args, "LLOO!:fetched", &start, &end, &batch, &PyFrame_Type, &frame)
        || turns_fetched(self, start, end, batch, (PyFrameObject *)frame) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* stepped() for callers in Python. */
static PyObject *
turns_stepped_method(Turns *self, PyObject *args)
{
    long long start, end;
    if (!PyArg_ParseTuple(args, "LL:stepped", &start, &end)
        || turns_stepped(self, start, end, PyEval_GetFrame()) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Turns(rows, add, load, plain, most). */
static int
turns_init(Turns *self, PyObject *args, PyObject *keywords)
{
    PyObject *rows, *add, *load;
    int plain;
    long long most;
    if (!PyArg_ParseTuple(args, "O!OOpL:Turns", &Rows_Type, &rows, &add, &load, &plain, &most)) {
        return -1;
    }
    Py_XSETREF(self->rows, (Rows *)Py_NewRef(rows));
    Py_XSETREF(self->add, foreign_add((Rows *)rows, add));
    Py_XSETREF(self->load, Py_NewRef(load));
    self->plain = (char)plain;
    self->most = most;
    return 0;
}

/* `rows` is left: a loop that is collected together with this object still writes its last row. A cycle
   through it is broken there, where tp_clear drops what it calls. */
#define TURNS_CLEARED(EACH) EACH(add) EACH(load) EACH(code)
#define TURNS_LEFT(EACH) EACH(rows)
COLLECTED(Turns, turns, TURNS_CLEARED, TURNS_LEFT)

static PyMethodDef turns_methods[] = {
    {"fetched", (PyCFunction)turns_fetched_method, METH_VARARGS,
     "fetched(start, end, batch, frame): a batch was drawn by frame; times in nanoseconds."},
    {"stepped", (PyCFunction)turns_stepped_method, METH_VARARGS,
     "stepped(start, end): the body that the batch was for has ended."},
    {NULL},
};

static PyMemberDef turns_members[] = {
    {"fetch", T_LONGLONG, offsetof(Turns, fetch), 0, "The site of its fetches; 0: not recorded."},
    {"step", T_LONGLONG, offsetof(Turns, step), 0, "The site of its turns; 0: not recorded."},
    {NULL},
};

PyTypeObject Turns_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Turns",
    .tp_doc = "Turns(rows, add, load, plain, most)",
    .tp_basicsize = sizeof(Turns),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)turns_init,
    COLLECTED_SLOTS(turns),
    .tp_methods = turns_methods,
    .tp_members = turns_members,
};

/* Times an iterator, and otherwise behaves like it. */
typedef struct {
    PyObject_HEAD
    PyObject *iterator;
    PyObject *listener;
    int64_t fed;              /* when it began to draw the batch that the loop works on; 0: there is none */
} Timed;

/* Tell the listener that the loop's body has ended; a Turns without a call of Python. -1 with an exception
   set. */
static int
tell_stepped(Timed *self, int64_t end)
{
    int64_t start = self->fed;
    self->fed = 0;
    if (PyObject_TypeCheck(self->listener, &Turns_Type)) {
        return turns_stepped((Turns *)self->listener, start, end, PyEval_GetFrame());
    }
    PyObject *done = PyObject_CallMethod(self->listener, "stepped", "LL", (long long)start, (long long)end);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Tell the listener that the present frame drew a batch; a Turns without a call of Python. -1 with an
   exception set. */
static int
tell_fetched(Timed *self, int64_t start, int64_t end, PyObject *batch)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL) {
        return 0;
    }
    if (PyObject_TypeCheck(self->listener, &Turns_Type)) {
        return turns_fetched((Turns *)self->listener, start, end, batch, frame);
    }
    PyObject *done = PyObject_CallMethod(self->listener, "fetched", "LLOO", (long long)start,
                                         (long long)end, batch, (PyObject *)frame);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Tell the listener that there is no batch left, or that drawing raised, with that exception set aside
   meanwhile. -1 if the listener raised: its exception then counts. */
static int
tell_ended(Timed *self, int64_t start, int64_t end)
{
    PyObject *type, *error, *trace, *frame = (PyObject *)PyEval_GetFrame();
    if (frame == NULL) {
        return 0;
    }
    PyErr_Fetch(&type, &error, &trace);
    PyObject *done = PyObject_CallMethod(self->listener, "ended", "LLO", (long long)start, (long long)end,
                                         frame);
    if (done == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        return -1;
    }
    Py_DECREF(done);
    PyErr_Restore(type, error, trace);
    return 0;
}

/* Draw the next batch, and tell the listener of the body before it and of the fetch. */
static PyObject *
timed_next(Timed *self)
{
    int64_t start = clock_ns();
    if (self->iterator == NULL) { /* cleared: it has come to its end */
        return NULL;
    }
    if (self->fed && tell_stepped(self, start) < 0) {
        return NULL;
    }
    PyObject *batch = Py_TYPE(self->iterator)->tp_iternext(self->iterator);
    int64_t end = clock_ns();
    if (batch == NULL) {
        tell_ended(self, start, end);
        return NULL;
    }
    if (tell_fetched(self, start, end, batch) < 0) {
        Py_DECREF(batch);
        return NULL;
    }
    self->fed = start;
    return batch;
}

/* Timed(iterator, listener). Raises TypeError for anything but an iterator. */
static PyObject *
timed_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *iterator, *listener;
    if (!PyArg_ParseTuple(args, "OO:Timed", &iterator, &listener)) {
        return NULL;
    }
    if (!PyIter_Check(iterator)) {
        return PyErr_Format(PyExc_TypeError, "%.200s is no iterator", Py_TYPE(iterator)->tp_name);
    }
    Timed *self = (Timed *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->iterator = Py_NewRef(iterator);
        self->listener = Py_NewRef(listener);
    }
    return (PyObject *)self;
}

/* An attribute of its own, else of the iterator. */
static PyObject *
timed_getattro(Timed *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr((PyObject *)self, name);
    if (found == NULL && self->iterator != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        found = PyObject_GetAttr(self->iterator, name);
    }
    return found;
}

/* Set an attribute of the iterator: this object has none to set. */
static int
timed_setattro(Timed *self, PyObject *name, PyObject *value)
{
    if (self->iterator == NULL) {
        PyErr_Format(PyExc_AttributeError, "there is no iterator that could have %R", name);
        return -1;
    }
    return PyObject_SetAttr(self->iterator, name, value);
}

/* The iterator first: without it, timed_next() ends before it reaches for the listener. */
#define TIMED_CLEARED(EACH) EACH(iterator) EACH(listener)
COLLECTED(Timed, timed, TIMED_CLEARED, NO_FIELDS)

PyTypeObject Timed_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Timed",
    .tp_doc = "Timed(iterator, listener): calls it for each fetch and for the loop body that it fed.",
    .tp_basicsize = sizeof(Timed),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = timed_new,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)timed_next,
    .tp_getattro = (getattrofunc)timed_getattro,
    .tp_setattro = (setattrofunc)timed_setattro,
    COLLECTED_SLOTS(timed),
};

/* Make the strings that name methods and attributes; -1 with an exception set. */
int
turns_ready(void)
{
    struct { PyObject **word; const char *text; } words[] = {
        {&word_find, "find"},       {&word_ended, "ended"},     {&word_fetched, "fetched"},
        {&word_stepped, "stepped"}, {&word_stopped, "stopped"}, {&word_shape, "shape"},
    };
    for (size_t each = 0; each < sizeof words / sizeof words[0]; each++) {
        *words[each].word = PyUnicode_InternFromString(words[each].text);
        if (*words[each].word == NULL) {
            return -1;
        }
    }
    return 0;
}
