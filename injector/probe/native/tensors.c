/* Reads tensors of PyTorch without calling Python: their length, or the number in one.

   Nothing is linked or imported: Python passes the class, its methods, and the functions by which PyTorch
   shows tensors to other libraries (../compiled.py). Only an object of exactly that class is read here. Its
   methods are called only while no mode and no trace takes note of operations on tensors; anything else is
   left to the function in Python that a shortcut stands for. */

#include "native.h"

/* A tensor as DLPack describes it: https://dmlc.github.io/dlpack/latest/c_api.html */
typedef struct {
    void *data;
    int32_t device, index;    /* device: 1 is the host */
    int32_t dimensions;
    uint8_t code, bits;       /* code: 0 is an integer, 2 is a float */
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
} Description;

/* DLPackExchangeAPI of version 1. */
typedef struct {
    uint32_t version, minor;
    void *older, *allocate, *give, *take;
    int (*show)(void *tensor, Description *shown); /* no copy and no wait; NULL: there is none */
} Exchange;

static struct {
    PyTypeObject *kind;       /* torch.Tensor; NULL as long as there is none */
    int (*show)(void *tensor, Description *shown); /* NULL: the methods are called instead */
    lenfunc length;           /* len() of its base class in C: that of torch.Tensor is in Python */
    PyObject *is_traced, *modes; /* is_traced(): a trace goes on; modes(): how many modes there are */
    PyObject *dim, *numel, *data_ptr, *is_neg, *is_cpu, *dtype; /* methods and attributes */
    PyObject *single, *whole; /* (float32, float64), (int32, int64) */
} torch;

/* See native.h. */
int
is_tensor(PyObject *value)
{
    return torch.kind != NULL && Py_TYPE(value) == torch.kind;
}

/* Whether a function without arguments returns something true; an error counts as that. */
static int
returns_true(PyObject *function)
{
    PyObject *found = PyObject_CallNoArgs(function);
    int true_ = found == NULL ? -1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    PyErr_Clear();
    return true_ != 0;
}

/* Whether no mode and no trace would take note of a method's call. */
static int
tensors_are_quiet(void)
{
    return !returns_true(torch.modes) && !returns_true(torch.is_traced);
}

/* Describe a tensor by DLPack, which no mode and no trace notices; whether that was possible. A tensor
   that cannot be shown, such as one of torch.func, raises an error in C++, which takes long: from then on
   the methods are called. */
static int
describe(PyObject *tensor, Description *found)
{
    if (torch.show == NULL) {
        return 0;
    }
    if (torch.show(tensor, found) < 0) {
        PyErr_Clear();
        torch.show = NULL;
        return 0;
    }
    return 1;
}

/* The first dimension of a described tensor, or 0. */
static Py_ssize_t
described_length(const Description *found)
{
    return found->dimensions ? (Py_ssize_t)found->shape[0] : 0;
}

/* The first dimension of a tensor by its method, or 0. */
static Py_ssize_t
length_by_method(PyObject *tensor)
{
    Py_ssize_t found = torch.length(tensor);
    if (found < 0) {
        PyErr_Clear();
        found = 0;
    }
    return found;
}

Py_ssize_t
tensor_length(PyObject *tensor)
{
    Description found;
    if (describe(tensor, &found)) {
        return described_length(&found);
    }
    return tensors_are_quiet() ? length_by_method(tensor) : -1;
}

/* The number that a method without arguments returns for a tensor; -1 if it returns none. */
static long long
number_of(PyObject *method, PyObject *tensor)
{
    PyObject *found = PyObject_CallOneArg(method, tensor);
    long long number = found == NULL ? -1 : PyLong_AsLongLong(found);
    Py_XDECREF(found);
    PyErr_Clear();
    return number;
}

/* An attribute that the class of a tensor defines, borrowed: such values (dtypes, booleans) outlive the
   tensor. NULL if there is none. */
static PyObject *
attribute(PyObject *descriptor, PyObject *tensor)
{
    PyObject *found = Py_TYPE(descriptor)->tp_descr_get(descriptor, tensor, (PyObject *)Py_TYPE(tensor));
    if (found == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(found);
    return found;
}

/* Whether an object is one of a pair. */
static int
is_either(PyObject *found, PyObject *pair)
{
    return found != NULL
        && (found == PyTuple_GET_ITEM(pair, 0) || found == PyTuple_GET_ITEM(pair, 1));
}

/* tensor_number() by the methods. The number is read from memory: Tensor.item() goes through the
   dispatcher, which takes ten times as long and would show in a profile of the program. */
static int
number_by_method(PyObject *tensor, double *number)
{
    if (!tensors_are_quiet()) {
        return 0;
    }
    PyObject *dtype = attribute(torch.dtype, tensor);
    if (!is_either(dtype, torch.single) || attribute(torch.is_cpu, tensor) != Py_True
        || number_of(torch.numel, tensor) != 1 || number_of(torch.is_neg, tensor) != 0) {
        return 0;
    }
    long long address = number_of(torch.data_ptr, tensor);
    if (address <= 0) {
        return 0;
    }
    if (dtype == PyTuple_GET_ITEM(torch.single, 0)) {
        *number = *(const float *)(uintptr_t)address;
    } else {
        *number = *(const double *)(uintptr_t)address;
    }
    return 1;
}

int
tensor_number(PyObject *tensor, double *number)
{
    Description found;
    if (!describe(tensor, &found)) {
        return number_by_method(tensor, number);
    }
    int size = found.bits / 8;
    if (found.data == NULL || found.device != 1 || found.code != 2 || found.lanes != 1
        || (size != sizeof(float) && size != sizeof(double))) {
        return 0;
    }
    for (int32_t each = 0; each < found.dimensions; each++) {
        if (found.shape[each] != 1) {
            return 0;
        }
    }
    const char *at = (const char *)found.data + found.offset;
    /* DLPack does not show whether a number is to be negated. Only imaginary parts of complex numbers are,
       which lie at the odd places: for a number there, is_neg() is called. */
    if ((uintptr_t)at % (2 * size) != 0 && (!tensors_are_quiet() || number_of(torch.is_neg, tensor) != 0)) {
        return 0;
    }
    *number = size == sizeof(float) ? *(const float *)at : *(const double *)at;
    return 1;
}

/* Stands for a function in Python: in nearly all cases its result is found here without calling it. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *slow;           /* the function */
    PyObject *aside;          /* a dict that the short way looks into */
    PyObject *kept;           /* its entry of the last plain model; or attributes of a thread; or NULL */
    uint64_t thread;          /* the thread of these attributes */
} Shortcut;

static PyObject *word_parameters, *word_modules;

/* Whether the dict `name` of a module is not empty; -1 if it has no such dict. */
static int
has_any(PyObject *attributes, PyObject *name)
{
    PyObject *found = PyDict_GetItemWithError(attributes, name);
    if (found == NULL || !PyDict_CheckExact(found)) {
        PyErr_Clear();
        return -1;
    }
    return PyDict_GET_SIZE(found) != 0;
}

/* Whether a module has weights, or modules in it that may; -1 if that can only be found in Python. */
static int
has_weights(PyObject *module)
{
    PyObject *attributes = PyObject_GenericGetDict(module, NULL);
    if (attributes == NULL) {
        PyErr_Clear();
        return -1;
    }
    int found = has_any(attributes, word_parameters);
    if (found == 0) {
        found = has_any(attributes, word_modules);
    }
    Py_DECREF(attributes);
    return found;
}

/* Whether a weak reference is to `object`, which is alive. */
static int
refers_to(PyObject *reference, PyObject *object)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found = NULL;
    PyWeakref_GetRef(reference, &found);
    Py_XDECREF(found);
    return found == object;
#else
    return PyWeakref_GET_OBJECT(reference) == object;
#endif
}

/* What `aside` says of a model, {id: (reference, anything, True or False)}: 1 or 0, or -1 if nothing. Of a
   layout it is whether the batch is surely the first dimension, of tokens whether tables of integers are
   surely sequences. The last such entry is kept: while its reference is to the model, nothing is looked up. */
static int
known_of(Shortcut *self, PyObject *model)
{
    if (self->kept != NULL && refers_to(PyTuple_GET_ITEM(self->kept, 0), model)) {
        return PyTuple_GET_ITEM(self->kept, 2) == Py_True;
    }
    PyObject *key = PyLong_FromVoidPtr(model);
    PyObject *known = key == NULL ? NULL : PyDict_GetItemWithError(self->aside, key);
    Py_XDECREF(key);
    PyErr_Clear();
    if (known == NULL || !PyTuple_Check(known) || PyTuple_GET_SIZE(known) != 3) {
        return -1;
    }
    if (PyWeakref_Check(PyTuple_GET_ITEM(known, 0))) {
        Py_XSETREF(self->kept, Py_NewRef(known));
    }
    return PyTuple_GET_ITEM(known, 2) == Py_True;
}

/* The first argument of a model, of the values (result, self, args, kwargs), if it is a tensor: borrowed,
   or NULL. */
static PyObject *
first_tensor(PyObject *const *values, Py_ssize_t count)
{
    if (count != 4 || torch.kind == NULL || !PyTuple_CheckExact(values[2])
        || PyTuple_GET_SIZE(values[2]) < 1 || !is_tensor(PyTuple_GET_ITEM(values[2], 0))) {
        return NULL;
    }
    return PyTuple_GET_ITEM(values[2], 0);
}

/* The items of a call whose first tensor is `first`, described by `found` unless that is NULL; -1 if they
   can only be found in Python. */
static Py_ssize_t
items_of(Shortcut *self, PyObject *const *values, PyObject *first, const Description *found)
{
    if (found == NULL && !tensors_are_quiet()) {
        return -1;
    }
    Py_ssize_t size = found != NULL ? described_length(found) : length_by_method(first);
    if (size <= 0) {
        return -1;
    }
    if (known_of(self, values[1]) != 1) {
        return has_weights(values[1]) == 0 ? (size == 1 ? 0 : size) : -1;
    }
    if (PyTuple_GET_SIZE(values[2]) != 1 || !is_tensor(values[0])
        || (found != NULL ? found->dimensions : number_of(torch.dim, first)) < 2
        || tensor_length(values[0]) != size) {
        return -1;
    }
    return size;
}

/* The tokens of that call: the elements of a table of integers, if the model surely takes sequences; 0 for
   other tensors; -1 if that can only be found in Python. */
static Py_ssize_t
tokens_of(Shortcut *self, PyObject *const *values, PyObject *first, const Description *found)
{
    Py_ssize_t size = 0;
    if (found != NULL) {
        int is_whole = found->code == 0 && (found->bits == 32 || found->bits == 64);
        if (!is_whole || found->dimensions != 2) {
            return 0;
        }
        size = (Py_ssize_t)(found->shape[0] * found->shape[1]);
    } else if (!tensors_are_quiet()) {
        return -1;
    } else if (!is_either(attribute(torch.dtype, first), torch.whole) || number_of(torch.dim, first) != 2) {
        return 0;
    } else {
        size = (Py_ssize_t)number_of(torch.numel, first);
    }
    int known = known_of(self, values[1]);
    return known < 0 ? -1 : known * size;
}

/* Call the function in Python. */
static PyObject *
call_slow(Shortcut *self, PyObject *const *args, Py_ssize_t count)
{
    if (self->slow == NULL) { /* cleared */
        Py_RETURN_NONE;
    }
    return PyObject_Vectorcall(self->slow, args, count, NULL);
}

/* Items of a call of a model. */
static PyObject *
call_items(Shortcut *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags), size = -1;
    PyObject *first = first_tensor(args, count);
    Description found;
    if (first != NULL) {
        size = items_of(self, args, first, describe(first, &found) ? &found : NULL);
    }
    return size < 0 ? call_slow(self, args, count) : PyLong_FromSsize_t(size);
}

/* Tokens of a call of a model. */
static PyObject *
call_tokens(Shortcut *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags), size = -1;
    PyObject *first = first_tensor(args, count);
    Description found;
    if (first != NULL) {
        size = tokens_of(self, args, first, describe(first, &found) ? &found : NULL);
    }
    return size < 0 ? call_slow(self, args, count) : PyLong_FromSsize_t(size);
}

/* See native.h. */
int
items_and_tokens(PyObject *low, PyObject *high, PyObject *const *values, Py_ssize_t count, Py_ssize_t *items,
                 Py_ssize_t *tokens)
{
    if (!Py_IS_TYPE(low, &Shortcut_Type) || !Py_IS_TYPE(high, &Shortcut_Type)
        || ((Shortcut *)low)->call != (vectorcallfunc)call_items
        || ((Shortcut *)high)->call != (vectorcallfunc)call_tokens) {
        return 0;
    }
    PyObject *first = first_tensor(values, count);
    Description found;
    if (first == NULL || !describe(first, &found)) {
        return 0;
    }
    *tokens = tokens_of((Shortcut *)high, values, first, &found);
    *items = *tokens < 0 ? -1 : items_of((Shortcut *)low, values, first, &found);
    return *items >= 0;
}

/* Whether an attribute of the present thread is missing or None. `aside` is {its name: the object whose
   attributes each thread has for itself}. */
static PyObject *
call_unset(Shortcut *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    PyObject *name, *local;
    Py_ssize_t at = 0;
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (!PyDict_Next(self->aside, &at, &name, &local)) {
        return call_slow(self, args, PyVectorcall_NARGS(flags));
    }
    if (self->kept == NULL || self->thread != thread) {
        PyObject *attributes = PyObject_GetAttrString(local, "__dict__");
        if (attributes == NULL || !PyDict_CheckExact(attributes)) {
            PyErr_Clear();
            Py_XDECREF(attributes);
            return call_slow(self, args, PyVectorcall_NARGS(flags));
        }
        self->thread = thread;
        Py_XSETREF(self->kept, attributes);
    }
    PyObject *found = PyDict_GetItemWithError(self->kept, name);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(found == NULL || found == Py_None);
}

/* Read the number in a tensor; whether that was possible. If anything is known aside, the tensor may stand
   for another one; a mode has the call made anew. */
static int
number_at_hand(Shortcut *self, PyObject *value, double *number)
{
    return is_tensor(value) && PyDict_GET_SIZE(self->aside) == 0 && !returns_true(torch.modes)
        && tensor_number(value, number);
}

/* The number in a tensor. */
static PyObject *
call_number(Shortcut *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    double number;
    if (count == 1 && number_at_hand(self, args[0], &number)) {
        return PyFloat_FromDouble(number);
    }
    return call_slow(self, args, count);
}

/* See native.h. */
int
shortcut_number(PyObject *function, PyObject *value, double *number)
{
    return Py_IS_TYPE(function, &Shortcut_Type)
        && ((Shortcut *)function)->call == (vectorcallfunc)call_number
        && number_at_hand((Shortcut *)function, value, number);
}

/* Shortcut(name, function, aside). */
static PyObject *
shortcut_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static const struct {
        const char *name;
        vectorcallfunc call;
    } ways[] = {{"items", (vectorcallfunc)call_items},
                {"tokens", (vectorcallfunc)call_tokens},
                {"unset", (vectorcallfunc)call_unset},
                {"number", (vectorcallfunc)call_number}};
    const char *name;
    PyObject *slow, *aside;
    if (!PyArg_ParseTuple(args, "sOO!:Shortcut", &name, &slow, &PyDict_Type, &aside)) {
        return NULL;
    }
    for (size_t each = 0; each < sizeof ways / sizeof ways[0]; each++) {
        if (strcmp(name, ways[each].name) == 0) {
            Shortcut *self = (Shortcut *)type->tp_alloc(type, 0);
            if (self != NULL) {
                self->call = ways[each].call;
                self->slow = Py_NewRef(slow);
                self->aside = Py_NewRef(aside);
            }
            return (PyObject *)self;
        }
    }
    return PyErr_Format(PyExc_ValueError, "there is no short way to %s", name);
}

/* `aside` is left, since every call looks into it: a dict, whose own tp_clear breaks a cycle. */
#define SHORTCUT_CLEARED(EACH) EACH(slow) EACH(kept)
#define SHORTCUT_LEFT(EACH) EACH(aside)
COLLECTED(Shortcut, shortcut, SHORTCUT_CLEARED, SHORTCUT_LEFT)

static PyMemberDef shortcut_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Shortcut, slow), READONLY, "The function that it stands for."},
    {NULL},
};

PyTypeObject Shortcut_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Shortcut",
    .tp_doc = "Shortcut(\"items\" | \"tokens\" | \"unset\" | \"number\", function, aside): gives what the function "
              "does.",
    .tp_basicsize = sizeof(Shortcut),
    .tp_vectorcall_offset = offsetof(Shortcut, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = shortcut_new,
    COLLECTED_SLOTS(shortcut),
    .tp_members = shortcut_members,
};

/* Look up the methods and attributes of tensors in the class `base`; -1 with an exception set. */
static int
know_members(PyTypeObject *base)
{
    struct {
        PyObject **place;
        const char *name;
        int is_attribute;
    } members[] = {
        {&torch.dim, "dim", 0},       {&torch.numel, "numel", 0},   {&torch.data_ptr, "data_ptr", 0},
        {&torch.is_neg, "is_neg", 0}, {&torch.is_cpu, "is_cpu", 1}, {&torch.dtype, "dtype", 1},
    };
    for (size_t each = 0; each < sizeof members / sizeof members[0]; each++) {
        PyObject *found = PyObject_GetAttrString((PyObject *)base, members[each].name);
        if (found == NULL) {
            return -1;
        }
        Py_XSETREF(*members[each].place, found);
        if (members[each].is_attribute && Py_TYPE(found)->tp_descr_get == NULL) {
            PyErr_Format(PyExc_TypeError, "%s of a tensor is no attribute", members[each].name);
            return -1;
        }
    }
    return 0;
}

/* Learn the class of tensors; see tensors_methods. */
static PyObject *
know_tensors(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *kind, *base;
    PyObject *is_traced, *modes, *single, *whole, *shows;
    if (!PyArg_ParseTuple(args, "O!O!OOO!O!O:know_tensors", &PyType_Type, &kind, &PyType_Type, &base,
                          &is_traced, &modes, &PyTuple_Type, &single, &PyTuple_Type, &whole, &shows)) {
        return NULL;
    }
    lenfunc length = base->tp_as_mapping == NULL ? NULL : base->tp_as_mapping->mp_length;
    if (length == NULL || PyTuple_GET_SIZE(single) != 2 || PyTuple_GET_SIZE(whole) != 2
        || !PyType_IsSubtype(kind, base)) {
        PyErr_SetString(PyExc_TypeError, "these are no tensors as they are known");
        return NULL;
    }
    torch.kind = NULL; /* until all of it is known */
    if (know_members(base) < 0) {
        return NULL;
    }
    Exchange *exchange = PyCapsule_IsValid(shows, "dlpack_exchange_api")
        ? PyCapsule_GetPointer(shows, "dlpack_exchange_api") : NULL;
    torch.show = exchange != NULL && exchange->version == 1 ? exchange->show : NULL;
    torch.length = length;
    Py_XSETREF(torch.is_traced, Py_NewRef(is_traced));
    Py_XSETREF(torch.modes, Py_NewRef(modes));
    Py_XSETREF(torch.single, Py_NewRef(single));
    Py_XSETREF(torch.whole, Py_NewRef(whole));
    torch.kind = (PyTypeObject *)Py_NewRef(kind);
    Py_RETURN_NONE;
}

PyMethodDef tensors_methods[] = {
    {"know_tensors", know_tensors, METH_VARARGS,
     "know_tensors(class, base, is_traced, modes, floats, integers, shows): read objects of that class here."},
    {NULL},
};

/* Make the strings that name attributes; -1 with an exception set. */
int
tensors_ready(void)
{
    word_parameters = PyUnicode_InternFromString("_parameters");
    word_modules = PyUnicode_InternFromString("_modules");
    return word_parameters == NULL || word_modules == NULL ? -1 : 0;
}
