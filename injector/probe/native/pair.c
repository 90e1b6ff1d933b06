/* Two functions as one, whose number holds those of both: a row has one payload, for items and tokens. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *low, *high;
    long long most_low, most_high;
    int shift;                /* bits that most_low takes */
} Pair;

/* The number that a function gives, from 0 to `most`, 0 for None; -1 with an exception set. */
static long long
number_of(PyObject *function, PyObject *const *args, size_t count, long long most)
{
    PyObject *found = PyObject_Vectorcall(function, args, count, NULL);
    if (found == NULL) {
        return -1;
    }
    long long number = 0;
    if (found != Py_None) {
        PyObject *whole = PyLong_CheckExact(found) ? Py_NewRef(found) : PyNumber_Long(found);
        int overflow = 0;
        number = whole == NULL ? -1 : PyLong_AsLongLongAndOverflow(whole, &overflow);
        Py_XDECREF(whole);
        if (number == -1 && PyErr_Occurred()) {
            Py_DECREF(found);
            return -1;
        }
        number = overflow > 0 || number > most ? most : overflow < 0 || number < 0 ? 0 : number;
    }
    Py_DECREF(found);
    return number;
}

/* Call both functions, and join their numbers: low | high << shift. */
static PyObject *
pair_call(Pair *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    size_t count = (size_t)PyVectorcall_NARGS(flags);
    if (self->low == NULL || self->high == NULL) { /* cleared */
        return PyLong_FromLong(0);
    }
    Py_ssize_t items, tokens;
    if (items_and_tokens(self->low, self->high, args, count, &items, &tokens)) {
        return PyLong_FromLongLong((long long)Py_MIN(items, self->most_low)
                                   | (long long)Py_MIN(tokens, self->most_high) << self->shift);
    }
    long long low = number_of(self->low, args, count, self->most_low);
    long long high = low < 0 ? -1 : number_of(self->high, args, count, self->most_high);
    return high < 0 ? NULL : PyLong_FromLongLong(low | high << self->shift);
}

/* Pair(low, most_low, high, most_high). */
static PyObject *
pair_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *low, *high;
    long long most_low, most_high;
    if (!PyArg_ParseTuple(args, "OLOL:Pair", &low, &most_low, &high, &most_high)) {
        return NULL;
    }
    int shift = 0;
    while (shift < 63 && most_low >> shift) {
        shift++;
    }
    if (most_low < 0 || most_high < 0 || most_high > LLONG_MAX >> shift) {
        PyErr_SetString(PyExc_ValueError, "the two do not fit into one number");
        return NULL;
    }
    Pair *self = (Pair *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->call = (vectorcallfunc)pair_call;
        self->low = Py_NewRef(low);
        self->high = Py_NewRef(high);
        self->most_low = most_low;
        self->most_high = most_high;
        self->shift = shift;
    }
    return (PyObject *)self;
}

#define PAIR_CLEARED(EACH) EACH(low) EACH(high)
COLLECTED(Pair, pair, PAIR_CLEARED, NO_FIELDS)

PyTypeObject Pair_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Pair",
    .tp_doc = "Pair(low, most_low, high, most_high): called, it calls both, and gives low | high << bits.",
    .tp_basicsize = sizeof(Pair),
    .tp_vectorcall_offset = offsetof(Pair, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = pair_new,
    COLLECTED_SLOTS(pair),
};
