/* Where spans are put: rows in mapped memory, which another process reads. */

#include "native.h"

/* Rows(full). */
static int
rows_init(Rows *self, PyObject *args, PyObject *keywords)
{
    PyObject *full;
    static char *names[] = {"full", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Rows", names, &full)) {
        return -1;
    }
    Py_XSETREF(self->full, Py_NewRef(full));
    return 0;
}

/* Exchange `view` for the memory of `given`, or for none if that is None; -1 with an exception set. */
static int
exchange(Py_buffer *view, PyObject *given)
{
    Py_buffer fresh = {0};
    if (given != Py_None
        && PyObject_GetBuffer(given, &fresh, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) {
        return -1;
    }
    Py_buffer old = *view;
    *view = fresh;
    PyBuffer_Release(&old); /* last: it may run code that comes back here */
    return 0;
}

/* Store rows in other memory, or nowhere. */
static PyObject *
rows_use(Rows *self, PyObject *given)
{
    self->at = self->end = NULL;
    if (exchange(&self->view, given) < 0) {
        return NULL;
    }
    self->at = self->view.buf;
    self->end = self->at + self->view.len / 32 * 4;
    Py_RETURN_NONE;
}

/* Show the sites of open calls in other memory, or nowhere. */
static PyObject *
rows_watch(Rows *self, PyObject *given)
{
    self->places = 0;
    if (exchange(&self->open, given) < 0) {
        return NULL;
    }
    self->opened = self->open.buf;
    self->places = self->open.len / 8;
    Py_RETURN_NONE;
}

/* Read the four arguments of a method; -1 with an exception set. */
static int
read_row(const char *name, PyObject *const *args, Py_ssize_t count, int64_t row[4])
{
    if (count != 4) {
        PyErr_Format(PyExc_TypeError, "%s() takes start, end, payload, site", name);
        return -1;
    }
    for (int each = 0; each < 4; each++) {
        row[each] = PyLong_AsLongLong(args[each]);
        if (row[each] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* put() for callers in Python. */
static PyObject *
rows_put_method(Rows *self, PyObject *const *args, Py_ssize_t count)
{
    int64_t row[4];
    if (read_row("put", args, count, row) < 0) {
        return NULL;
    }
    return PyBool_FromLong(rows_put(self, row[0], row[1], row[2], row[3]));
}

/* add() for callers in Python: a row that has no room, or a number that does not fit into 64 bits, goes to
   full(). */
static PyObject *
rows_add_method(Rows *self, PyObject *const *args, Py_ssize_t count)
{
    int64_t row[4];
    if (read_row("add", args, count, row) < 0) {
        if (count != 4 || !PyErr_ExceptionMatches(PyExc_OverflowError)) {
            return NULL;
        }
        PyErr_Clear();
        if (self->full == NULL) {
            Py_RETURN_NONE;
        }
        return PyObject_Vectorcall(self->full, args, 4, NULL);
    }
    if (add_row(self, NULL, row[0], row[1], row[2], row[3]) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

int
add_row(Rows *rows, PyObject *add, int64_t start, int64_t end, int64_t payload, int64_t site)
{
    if (add == NULL) {
        if (rows_put(rows, start, end, payload, site)) {
            return 0;
        }
        add = rows->full;
        if (add == NULL) { /* cleared */
            return 0;
        }
    }
    PyObject *done = PyObject_CallFunction(add, "LLLL", (long long)start, (long long)end,
                                           (long long)payload, (long long)site);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

PyObject *
foreign_add(Rows *rows, PyObject *add)
{
    int own = PyCFunction_Check(add) && PyCFunction_GET_SELF(add) == (PyObject *)rows;
    return own ? NULL : Py_NewRef(add);
}

/* The views are not shown to the garbage collector, and tp_clear leaves them: they are released when the
   object dies. If they were shown, the collector could clear a memoryview before this object. Then
   memory_clear() drops the memory even while a buffer is out, and memory_dealloc(), which runs as that
   buffer is released, reads what was dropped: programs crashed at their very end. No cycle is kept alive by
   it, since memory (mmap, bytearray) refers to no other object. */
static int
rows_traverse(Rows *self, visitproc visit, void *arg)
{
    Py_VISIT(self->full);
    return 0;
}

/* Drop full(); the views are left, as rows_traverse() explains. */
static int
rows_clear(Rows *self)
{
    Py_CLEAR(self->full);
    return 0;
}

/* Release the memory with the object itself. */
static void
rows_dealloc(Rows *self)
{
    PyObject_GC_UnTrack(self);
    PyBuffer_Release(&self->view);
    PyBuffer_Release(&self->open);
    rows_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef rows_methods[] = {
    {"put", (PyCFunction)(void (*)(void))rows_put_method, METH_FASTCALL,
     "put(start, end, payload, site): store a row; whether there was room. Raises OverflowError."},
    {"add", (PyCFunction)(void (*)(void))rows_add_method, METH_FASTCALL,
     "add(start, end, payload, site): store a row; full(…) is called with one that cannot be."},
    {"use", (PyCFunction)rows_use, METH_O, "use(view): store rows there; nowhere with None."},
    {"watch", (PyCFunction)rows_watch, METH_O,
     "watch(view): note the sites of open calls there, int64 for each slot."},
    {NULL},
};

static PyMemberDef rows_members[] = {
    {"age", T_LONGLONG, offsetof(Rows, age), 0,
     "Sites are good for as long as this stays the same: until a fork."},
    {NULL},
};

PyTypeObject Rows_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Rows",
    .tp_doc = "Rows of four integers in memory that is given to it.",
    .tp_basicsize = sizeof(Rows),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)rows_init,
    .tp_traverse = (traverseproc)rows_traverse,
    .tp_clear = (inquiry)rows_clear,
    .tp_dealloc = (destructor)rows_dealloc,
    .tp_methods = rows_methods,
    .tp_members = rows_members,
};
