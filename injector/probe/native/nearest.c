/* The nearest frame, outwards, whose code is of interest. It is looked for at every call from a library, so
   what judge() has decided of a code is kept. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *judge;          /* judge(frame): whether its code is; called once for each code */
    PyObject *known;          /* by the address of a code: (verdict, code), which keeps that code alive */
    Py_ssize_t most;          /* codes that are known at most */
} Nearest;

/* Have judge() decide whether the code of `frame` is of interest, and keep that; -1 with an exception set. */
static int
judge_code(Nearest *self, PyFrameObject *frame, PyObject *code)
{
    PyObject *verdict = PyObject_CallOneArg(self->judge, (PyObject *)frame);
    if (verdict == NULL) {
        return -1;
    }
    if (PyDict_GET_SIZE(self->known) >= self->most) {
        PyDict_Clear(self->known);
    }
    int found = PyObject_IsTrue(verdict);
    PyObject *key = PyLong_FromVoidPtr(code);
    PyObject *value = key == NULL ? NULL : PyTuple_Pack(2, found > 0 ? Py_True : Py_False, code);
    if (value == NULL || PyDict_SetItem(self->known, key, value) < 0) {
        found = -1;
    }
    Py_XDECREF(key);
    Py_XDECREF(value);
    Py_DECREF(verdict);
    return found;
}

/* Whether the code of `frame` is of interest, from what is known, else by judge(); -1 with an exception
   set. Codes are told by address: two modules may have equal ones. */
static int
is_of_interest(Nearest *self, PyFrameObject *frame)
{
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    PyObject *key = PyLong_FromVoidPtr(code);
    int found = -1;
    if (key != NULL) {
        PyObject *known = PyDict_GetItemWithError(self->known, key);
        if (known != NULL) {
            found = PyTuple_GET_ITEM(known, 0) == Py_True;
        } else if (!PyErr_Occurred()) {
            found = judge_code(self, frame, code);
        }
        Py_DECREF(key);
    }
    Py_DECREF(code);
    return found;
}

/* The nearest frame of interest from the frame given outwards, or None. */
static PyObject *
nearest_call(Nearest *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    if (PyVectorcall_NARGS(flags) != 1) {
        PyErr_SetString(PyExc_TypeError, "a frame is wanted, or None");
        return NULL;
    }
    if (!PyFrame_Check(args[0]) || self->judge == NULL) { /* NULL: cleared */
        Py_RETURN_NONE;
    }
    PyFrameObject *frame = (PyFrameObject *)Py_NewRef(args[0]);
    while (frame != NULL) {
        int found = is_of_interest(self, frame);
        if (found) {
            if (found < 0) {
                Py_CLEAR(frame);
                return NULL;
            }
            return (PyObject *)frame;
        }
        Py_SETREF(frame, PyFrame_GetBack(frame));
    }
    Py_RETURN_NONE;
}

/* Nearest(judge, most). */
static PyObject *
nearest_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *judge;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "On:Nearest", &judge, &most)) {
        return NULL;
    }
    PyObject *known = PyDict_New();
    Nearest *self = known == NULL ? NULL : (Nearest *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(known);
        return NULL;
    }
    self->call = (vectorcallfunc)nearest_call;
    self->judge = Py_NewRef(judge);
    self->known = known;
    self->most = most;
    return (PyObject *)self;
}

/* `known` is left: codes and booleans do not refer back to objects of ours. */
#define NEAREST_CLEARED(EACH) EACH(judge)
#define NEAREST_LEFT(EACH) EACH(known)
COLLECTED(Nearest, nearest, NEAREST_CLEARED, NEAREST_LEFT)

PyTypeObject Nearest_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Nearest",
    .tp_doc = "Nearest(judge, most): called with a frame, it gives the nearest that judge(frame) is true "
              "of, from there on outwards; None if there is none. What is known of `most` codes is kept.",
    .tp_basicsize = sizeof(Nearest),
    .tp_vectorcall_offset = offsetof(Nearest, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = nearest_new,
    COLLECTED_SLOTS(nearest),
};
