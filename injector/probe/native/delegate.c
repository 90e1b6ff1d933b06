/* The iterator that a rewritten ``yield from`` delegates to: it passes on to the inner one, with a hook on
   each value that is yielded or received.

   Compiled, it adds no frame to a traceback and takes nothing from the program's recursion limit. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    PyObject *inner;          /* the iterator that the program delegates to */
    PyObject *hooks, *name;   /* hooks[name] is the hook */
    char receives;            /* whether the hook is on values sent in, else on those yielded */
    char started;             /* whether it has been advanced */
} Delegate;

/* What the hook makes of a value, whose reference it takes: a new one, NULL with an exception set. */
static PyObject *
through_hook(Delegate *self, PyObject *value)
{
    PyObject *hook = value == NULL ? NULL : PyObject_GetItem(self->hooks, self->name);
    PyObject *result = hook == NULL ? NULL : PyObject_CallOneArg(hook, value);
    Py_XDECREF(hook);
    Py_XDECREF(value);
    return result;
}

/* Send a value to the inner iterator, or None to advance it, with the hook on the way in or out. */
static PySendResult
delegate_am_send(Delegate *self, PyObject *value, PyObject **result)
{
    if (self->inner == NULL) { /* cleared: it has come to its end */
        *result = Py_NewRef(Py_None);
        return PYGEN_RETURN;
    }
    PyObject *sent = Py_NewRef(value);
    if (self->receives && self->started) {
        sent = through_hook(self, sent);
        if (sent == NULL) {
            *result = NULL;
            return PYGEN_ERROR;
        }
    }
    self->started = 1; /* the first advance starts the inner iterator: nothing is received */
    PySendResult sending = PyIter_Send(self->inner, sent, result);
    Py_DECREF(sent);
    if (sending == PYGEN_NEXT && !self->receives) {
        *result = through_hook(self, *result);
        sending = *result == NULL ? PYGEN_ERROR : PYGEN_NEXT;
    }
    return sending;
}

/* The result of sending as a method returns it: the end of the iterator, with its value, as StopIteration. */
static PyObject *
as_method_result(PySendResult sending, PyObject *result)
{
    if (sending != PYGEN_RETURN) {
        return result;
    }
    PyObject *error = PyObject_CallOneArg(PyExc_StopIteration, result);
    Py_DECREF(result);
    if (error != NULL) {
        PyErr_SetObject(PyExc_StopIteration, error);
        Py_DECREF(error);
    }
    return NULL;
}

/* Advance the inner iterator. */
static PyObject *
delegate_next(Delegate *self)
{
    PyObject *result;
    PySendResult sending = delegate_am_send(self, Py_None, &result);
    if (sending == PYGEN_RETURN && result == Py_None) {
        Py_DECREF(result);
        return NULL;
    }
    return as_method_result(sending, result);
}

/* send() for callers that look it up by name. */
static PyObject *
delegate_send(PyObject *object, PyObject *value)
{
    Delegate *self = (Delegate *)object;
    PyObject *result;
    PySendResult sending = delegate_am_send(self, value, &result);
    return as_method_result(sending, result);
}

/* Raise an exception in the inner iterator. If the hook is on yielded values, what it yields then goes
   through it. */
static PyObject *
delegate_throw(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    Delegate *self = (Delegate *)object;
    PyObject *method = self->inner == NULL ? NULL : PyObject_GetAttrString(self->inner, "throw");
    if (method == NULL) {
        if (self->inner == NULL) {
            PyErr_SetString(PyExc_RuntimeError, "what was delegated to has been cleared");
        }
        return NULL;
    }
    PyObject *result = PyObject_Vectorcall(method, args, (size_t)count, NULL);
    Py_DECREF(method);
    return self->receives ? result : through_hook(self, result);
}

static PyMethodDef send_method = {"send", delegate_send, METH_O, NULL};
static PyMethodDef throw_method = {"throw", (PyCFunction)(void (*)(void))delegate_throw, METH_FASTCALL, NULL};

/* Give send and throw of its own if the inner iterator has them, since `yield from` looks for them by name
   and does without those that are missing; all other attributes are the inner iterator's. */
static PyObject *
delegate_getattro(Delegate *self, PyObject *name)
{
    if (self->inner == NULL) { /* cleared */
        return PyObject_GenericGetAttr((PyObject *)self, name);
    }
    PyObject *found = PyObject_GetAttr(self->inner, name);
    if (found == NULL || !PyUnicode_Check(name)) {
        return found;
    }
    int sends = PyUnicode_CompareWithASCIIString(name, "send") == 0;
    if (sends || PyUnicode_CompareWithASCIIString(name, "throw") == 0) {
        Py_DECREF(found);
        return PyCFunction_New(sends ? &send_method : &throw_method, (PyObject *)self);
    }
    return found;
}

/* The inner iterator's representation. */
static PyObject *
delegate_repr(Delegate *self)
{
    return PyObject_Repr(self->inner);
}

/* Delegate(hooks, name, receives, iterable); a coroutine is returned as it is. */
static PyObject *
delegate_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *hooks, *name, *iterable;
    int receives;
    if (!PyArg_ParseTuple(args, "OUpO:Delegate", &hooks, &name, &receives, &iterable)) {
        return NULL;
    }
    if (PyCoro_CheckExact(iterable)) {
        return Py_NewRef(iterable); /* whether `yield from` may take one, Python itself decides */
    }
    PyObject *inner = PyObject_GetIter(iterable);
    Delegate *self = inner == NULL ? NULL : (Delegate *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(inner);
        return NULL;
    }
    self->inner = inner;
    self->hooks = Py_NewRef(hooks);
    self->name = Py_NewRef(name);
    self->receives = (char)receives;
    return (PyObject *)self;
}

#define DELEGATE_CLEARED(EACH) EACH(inner) EACH(hooks)
#define DELEGATE_LEFT(EACH) EACH(name)
COLLECTED(Delegate, delegate, DELEGATE_CLEARED, DELEGATE_LEFT)

static PyAsyncMethods delegate_sending = {.am_send = (sendfunc)delegate_am_send};

PyTypeObject Delegate_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Delegate",
    .tp_doc = "Delegate(hooks, name, receives, iterable): what `yield from` delegates to instead.",
    .tp_basicsize = sizeof(Delegate),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = delegate_new,
    COLLECTED_SLOTS(delegate),
    .tp_getattro = (getattrofunc)delegate_getattro,
    .tp_repr = (reprfunc)delegate_repr,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)delegate_next,
    .tp_as_async = &delegate_sending,
};
