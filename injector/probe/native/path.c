/* A part of a call's variables, read without calling Python: `self`, `args[0]`, `bool(self._modules)`. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Py_ssize_t variable;
    PyObject *name;           /* of an attribute in the variable's __dict__; NULL: the variable itself */
    Py_ssize_t item;          /* the index of an item of the variable; -1: the variable itself */
    char truth;               /* whether the part is given as True or False */
} Path;

/* An attribute in the object's own __dict__: what a class computes is not looked up, which may run the
   program's code. NULL with an exception set. */
static PyObject *
own_attribute(PyObject *object, PyObject *name)
{
    PyObject *attributes = PyObject_GenericGetDict(object, NULL);
    if (attributes == NULL) {
        return NULL;
    }
    PyObject *found = Py_XNewRef(PyDict_GetItemWithError(attributes, name));
    Py_DECREF(attributes);
    if (found == NULL && !PyErr_Occurred()) {
        PyErr_SetObject(PyExc_AttributeError, name);
    }
    return found;
}

PyObject *
path_of(PyObject *object, PyObject *const *values, Py_ssize_t count)
{
    Path *self = (Path *)object;
    if (self->variable >= count) {
        PyErr_SetString(PyExc_IndexError, "there is no such variable");
        return NULL;
    }
    PyObject *value = values[self->variable], *found;
    if (self->name != NULL) {
        found = own_attribute(value, self->name);
    } else if (self->item >= 0) {
        found = PySequence_GetItem(value, self->item);
    } else {
        found = Py_NewRef(value);
    }
    if (self->truth && found != NULL) {
        int true_ = PyObject_IsTrue(found);
        Py_SETREF(found, true_ < 0 ? NULL : PyBool_FromLong(true_));
    }
    return found;
}

/* Call a Path with variables. */
static PyObject *
path_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    return path_of(self, args, PyVectorcall_NARGS(flags));
}

/* Path(variable, name, item, truth). */
static PyObject *
path_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    Py_ssize_t variable, item;
    PyObject *name;
    int truth;
    if (!PyArg_ParseTuple(args, "nOnp:Path", &variable, &name, &item, &truth)) {
        return NULL;
    }
    if (variable < 0 || (name != Py_None && !PyUnicode_Check(name))) {
        PyErr_SetString(PyExc_TypeError, "a path is the number of a variable and a name, or None");
        return NULL;
    }
    Path *self = (Path *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->call = path_call;
        self->variable = variable;
        self->name = kept(name);
        if (self->name != NULL) {
            PyUnicode_InternInPlace(&self->name);
        }
        self->item = item;
        self->truth = (char)truth;
    }
    return (PyObject *)self;
}

static void
path_dealloc(Path *self)
{
    Py_XDECREF(self->name);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject Path_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Path",
    .tp_doc = "Path(variable, name, item, truth): called with variables, it gives a part of one of them.",
    .tp_basicsize = sizeof(Path),
    .tp_vectorcall_offset = offsetof(Path, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = path_new,
    .tp_dealloc = (destructor)path_dealloc,
};
