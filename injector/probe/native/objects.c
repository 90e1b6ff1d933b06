/* Calls of objects that are written in C, such as those that jax.jit makes, and reads of memory that such
   objects lend: functions of Python hear of their begin and end.

   Each such object holds the address of the function that runs when it is called (PEP 590); this replaces the
   address. No object is put in its place, so its identity, its type and how it is pickled stay the same. */

#include "native.h"

#define KINDS 16

static struct {
    PyTypeObject *type;
    vectorcallfunc was;    /* the function that runs in objects of this type */
    PyObject *begin, *end; /* NULL: their calls are not reported any more */
} kinds[KINDS];
static int count;

/* Where `object` holds the address of its function; NULL if it has none, or if Python calls objects of its
   type without looking there. */
static vectorcallfunc *
address_in(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (!PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL) || type->tp_vectorcall_offset <= 0
        || PyFunction_Check(object) || PyCFunction_Check(object) || PyMethod_Check(object)
        || PyType_Check(object) || !Py_TYPE(object)->tp_call) {
        return NULL;
    }
    return (vectorcallfunc *)((char *)object + type->tp_vectorcall_offset);
}

/* The index of a type in `kinds`; `count` if it is not there. */
static int
kind_of(PyTypeObject *type)
{
    int each = 0;
    while (each < count && kinds[each].type != type) {
        each++;
    }
    return each;
}

/* Call end(object, token, result) after a call, without a result if that raised. Returns `result`, or NULL
   with the exception that the program shall see. */
static PyObject *
report_end(PyObject *end, PyObject *object, PyObject *token, PyObject *result)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (result == NULL) {
        PyErr_Fetch(&type, &value, &trace);
    }
    PyObject *args[] = {object, token, result};
    PyObject *done = PyObject_Vectorcall(end, args, result == NULL ? 2 : 3, NULL);
    if (done == NULL) { /* a stop, or what a signal's handler raised */
        Py_CLEAR(result);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return NULL;
    }
    Py_DECREF(done);
    if (result == NULL) {
        PyErr_Restore(type, value, trace);
    }
    return result;
}

/* The function that runs instead: begin(), the call, end(). The arguments are not kept while the call
   lasts, which may delete what they hold. */
static PyObject *
reported_call(PyObject *object, PyObject *const *args, size_t flags, PyObject *names)
{
    int kind = kind_of(Py_TYPE(object));
    vectorcallfunc was = kinds[kind].was;
    PyObject *begin = kinds[kind].begin, *end = kinds[kind].end;
    if (begin == NULL) {
        return was(object, args, flags, names);
    }
    Py_ssize_t size = PyVectorcall_NARGS(flags) + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    PyObject *values = PyTuple_New(size);
    if (values == NULL) {
        return NULL;
    }
    for (Py_ssize_t each = 0; each < size; each++) {
        PyTuple_SET_ITEM(values, each, Py_NewRef(args[each]));
    }
    Py_INCREF(begin); /* it may be replaced meanwhile */
    Py_INCREF(end);
    PyObject *given[] = {object, values};
    PyObject *token = PyObject_Vectorcall(begin, given, 2, NULL);
    Py_DECREF(values);
    PyObject *result = token == NULL ? NULL : was(object, args, flags, names);
    if (token != NULL && token != Py_None) {
        result = report_end(end, object, token, result);
    }
    Py_XDECREF(token);
    Py_DECREF(begin);
    Py_DECREF(end);
    return result;
}

/* --- memory that objects lend ---------------------------------------------------------------------------- */

#define LENDERS 4

static struct {
    PyTypeObject *type;
    getbufferproc was;     /* the type's own function */
    PyObject *begin, *end; /* NULL: reads are not reported any more */
} lenders[LENDERS];
static int lending;

/* The function that runs when something borrows an object's memory (PEP 3118), as NumPy to read an array:
   begin(), the type's own function, end(). */
static int
reported_lend(PyObject *object, Py_buffer *view, int flags)
{
    int each = 0;
    while (each < lending && !PyType_IsSubtype(Py_TYPE(object), lenders[each].type)) {
        each++;
    }
    if (each == lending) {
        PyErr_SetString(PyExc_BufferError, "it lends no memory");
        return -1;
    }
    getbufferproc was = lenders[each].was;
    PyObject *begin = lenders[each].begin, *end = lenders[each].end;
    if (begin == NULL) {
        return was(object, view, flags);
    }
    PyObject *values = PyTuple_New(0);
    if (values == NULL) {
        return -1;
    }
    Py_INCREF(begin); /* it may be replaced meanwhile */
    Py_INCREF(end);
    PyObject *given[] = {object, values};
    PyObject *token = PyObject_Vectorcall(begin, given, 2, NULL);
    Py_DECREF(values);
    int done = token == NULL ? -1 : was(object, view, flags);
    if (token != NULL && token != Py_None) {
        PyObject *result = report_end(end, object, token, done < 0 ? NULL : Py_NewRef(Py_None));
        if (result == NULL && done == 0) {
            PyBuffer_Release(view);
            done = -1;
        }
        Py_XDECREF(result);
    }
    Py_XDECREF(token);
    Py_DECREF(begin);
    Py_DECREF(end);
    return done;
}

/* Report the reads of objects of a type; see objects_methods. Only types that are made at run time can be
   changed. */
static PyObject *
hear_lending(PyObject *module, PyObject *args)
{
    PyObject *begin, *end;
    PyTypeObject *type;
    if (!PyArg_ParseTuple(args, "O!OO:hear_lending", &PyType_Type, &type, &begin, &end)) {
        return NULL;
    }
    PyBufferProcs *slots = type->tp_as_buffer;
    int each = 0;
    while (each < lending && lenders[each].type != type) {
        each++;
    }
    if (slots == NULL || slots->bf_getbuffer == NULL || each == LENDERS) {
        Py_RETURN_FALSE;
    }
    if (each == lending) {
        if (slots->bf_getbuffer == reported_lend || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
            Py_RETURN_FALSE;
        }
        lenders[each].type = (PyTypeObject *)Py_NewRef((PyObject *)type);
        lenders[each].was = slots->bf_getbuffer;
        lending++;
    }
    PyObject *before[] = {lenders[each].begin, lenders[each].end};
    lenders[each].begin = kept(begin);
    lenders[each].end = kept(end);
    Py_XDECREF(before[0]);
    Py_XDECREF(before[1]);
    slots->bf_getbuffer = reported_lend;
    Py_RETURN_TRUE;
}

/* Report the calls of an object; see objects_methods. False if it holds another function than others of
   its type, which it would lose. */
static PyObject *
hear_calls(PyObject *module, PyObject *args)
{
    PyObject *object, *begin, *end;
    if (!PyArg_ParseTuple(args, "OOO:hear_calls", &object, &begin, &end)) {
        return NULL;
    }
    PyTypeObject *type = Py_TYPE(object);
    vectorcallfunc *address = address_in(object);
    int kind = kind_of(type);
    if (address == NULL || *address == NULL || kind == KINDS) {
        Py_RETURN_FALSE;
    }
    if (kind == count) {
        kinds[count].type = (PyTypeObject *)Py_NewRef((PyObject *)type);
        kinds[count++].was = *address;
    }
    if (*address != kinds[kind].was && *address != reported_call) {
        Py_RETURN_FALSE;
    }
    PyObject *before[] = {kinds[kind].begin, kinds[kind].end};
    kinds[kind].begin = kept(begin);
    kinds[kind].end = kept(end);
    Py_XDECREF(before[0]);
    Py_XDECREF(before[1]);
    *address = reported_call;
    Py_RETURN_TRUE;
}

PyMethodDef objects_methods[] = {
    {"hear_calls", hear_calls, METH_VARARGS,
     "hear_calls(object, begin, end): hear of the calls of an object that is written in C, in place of who\n"
     "heard of those of its type; whether that can be done. begin(object, values), values being its\n"
     "arguments without their names, gives None where the end is of no interest; what else it gives is the\n"
     "token of end(object, token, result), which has no result where the call raised. What these raise\n"
     "the program sees. With None for both, the calls are not reported any more."},
    {"hear_lending", hear_lending, METH_VARARGS,
     "hear_lending(type, begin, end): hear of each time that an object of a type which is written in C lends\n"
     "its memory, as NumPy reads it; whether that can be done. All else is as in hear_calls, without values."},
    {NULL},
};
