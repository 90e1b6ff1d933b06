/* Calls that have begun and not ended: a stack of them for each thread. */

#include "native.h"

static Py_ssize_t numbers = 0; /* of the stacks so far */

/* Begin a call; takes the reference to `mark`. -1 with an exception set. */
int
stack_push(Stack *self, PyObject *owner, int64_t site, int64_t start, int64_t payload, PyObject *mark)
{
    if (self->depth == self->room) {
        Py_ssize_t room = self->room ? 2 * self->room : 8;
        Entry *entries = PyMem_Realloc(self->entries, room * sizeof(Entry));
        if (entries == NULL) {
            Py_XDECREF(mark);
            PyErr_NoMemory();
            return -1;
        }
        self->entries = entries;
        self->room = room;
    }
    self->entries[self->depth++] = (Entry){Py_NewRef(owner), site, start, payload, mark};
    return 0;
}

/* An entry as (owner, site, start, payload, mark). */
static PyObject *
entry_tuple(const Entry *entry)
{
    return Py_BuildValue("(OLLLO)", entry->owner, (long long)entry->site, (long long)entry->start,
                         (long long)entry->payload, NONE_IF_NULL(entry->mark));
}

/* Fill `entry` with new references out of (owner, site, start, payload, mark); -1 with an exception set. */
static int
entry_from(Entry *entry, PyObject *given)
{
    PyObject *owner, *mark;
    long long site, start, payload;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "an entry is (owner, site, start, payload, mark)");
        return -1;
    }
    if (!PyArg_ParseTuple(given, "OLLLO", &owner, &site, &start, &payload, &mark)) {
        return -1;
    }
    *entry = (Entry){Py_NewRef(owner), site, start, payload, kept(mark)};
    return 0;
}

/* Begin a call, for callers in Python. */
static PyObject *
stack_append(Stack *self, PyObject *given)
{
    Entry entry;
    if (entry_from(&entry, given) < 0) {
        return NULL;
    }
    int failed = stack_push(self, entry.owner, entry.site, entry.start, entry.payload, entry.mark);
    Py_DECREF(entry.owner);
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Remove the topmost call, and return it. */
static PyObject *
stack_pop(Stack *self, PyObject *Py_UNUSED(ignored))
{
    if (!self->depth) {
        PyErr_SetString(PyExc_IndexError, "pop from an empty stack");
        return NULL;
    }
    Entry entry = self->entries[--self->depth];
    PyObject *found = entry_tuple(&entry);
    Py_DECREF(entry.owner);
    Py_XDECREF(entry.mark);
    return found;
}

/* The number of open calls. */
static Py_ssize_t
stack_length(Stack *self)
{
    return self->depth;
}

/* The open call at `index`, 0 for the outermost. */
static PyObject *
stack_item(Stack *self, Py_ssize_t index)
{
    if (index < 0 || index >= self->depth) {
        PyErr_SetString(PyExc_IndexError, "no such call is open");
        return NULL;
    }
    return entry_tuple(&self->entries[index]);
}

/* Replace the open call at `index`. */
static int
stack_set_item(Stack *self, Py_ssize_t index, PyObject *given)
{
    Entry old, fresh = {0};
    if (given != NULL && entry_from(&fresh, given) < 0) { /* which may run __index__, and that pop() */
        return -1;
    }
    if (given == NULL || index < 0 || index >= self->depth) {
        Py_XDECREF(fresh.owner);
        Py_XDECREF(fresh.mark);
        PyErr_SetString(PyExc_IndexError, "no such call is open");
        return -1;
    }
    old = self->entries[index];
    self->entries[index] = fresh;
    Py_DECREF(old.owner);
    Py_XDECREF(old.mark);
    return 0;
}

/* Show the collector the objects of all open calls. */
static int
stack_traverse(Stack *self, visitproc visit, void *arg)
{
    for (Py_ssize_t each = 0; each < self->depth; each++) {
        Py_VISIT(self->entries[each].owner);
        Py_VISIT(self->entries[each].mark);
    }
    return 0;
}

/* Drop all open calls. */
static int
stack_clear(Stack *self)
{
    while (self->depth) {
        Entry entry = self->entries[--self->depth];
        Py_DECREF(entry.owner);
        Py_XDECREF(entry.mark);
    }
    return 0;
}

/* Drop the open calls and their memory. */
static void
stack_dealloc(Stack *self)
{
    PyObject_GC_UnTrack(self);
    stack_clear(self);
    PyMem_Free(self->entries);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef stack_methods[] = {
    {"append", (PyCFunction)stack_append, METH_O, "append(entry): a call has begun."},
    {"pop", (PyCFunction)stack_pop, METH_NOARGS, "The entry of the topmost call, which is removed."},
    {NULL},
};

static PySequenceMethods stack_sequence = {
    .sq_length = (lenfunc)stack_length,
    .sq_item = (ssizeargfunc)stack_item,
    .sq_ass_item = (ssizeobjargproc)stack_set_item,
};

PyTypeObject Stack_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Stack",
    .tp_doc = "The open calls of one level in one thread: (owner, site, start, payload, mark) each.",
    .tp_basicsize = sizeof(Stack),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)stack_traverse,
    .tp_clear = (inquiry)stack_clear,
    .tp_dealloc = (destructor)stack_dealloc,
    .tp_methods = stack_methods,
    .tp_as_sequence = &stack_sequence,
};

/* A stack for the present thread, with its number and slot; NULL with an exception set. */
static Stack *
stack_new(Stacks *of)
{
    PyObject *slot = of->slot == NULL ? PyLong_FromLong(0) : PyObject_CallNoArgs(of->slot);
    if (slot == NULL) {
        return NULL;
    }
    Py_ssize_t place = PyLong_AsSsize_t(slot);
    Py_DECREF(slot);
    if (place == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Stack *made = (Stack *)PyType_GenericAlloc(&Stack_Type, 0);
    if (made != NULL) {
        made->slot = place;
        made->number = ++numbers;
    }
    return made;
}

/* Find or make the present thread's stack. The thread's own dict keeps it, so that it dies with the
   thread. */
Stack *
stack_of_thread(Stacks *self, uint64_t thread)
{
    PyObject *all = PyThreadState_GetDict();
    if (all == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this thread has no room for a stack");
        return NULL;
    }
    Stack *found = (Stack *)Py_XNewRef(PyDict_GetItemWithError(all, (PyObject *)self));
    if (found == NULL) {
        if (PyErr_Occurred() || (found = stack_new(self)) == NULL) {
            return NULL;
        }
        if (PyDict_SetItem(all, (PyObject *)self, (PyObject *)found) < 0) {
            Py_DECREF(found);
            return NULL;
        }
    }
    Py_XSETREF(self->last, found);
    self->thread = thread;
    return found;
}

/* Stacks(slot). */
static int
stacks_init(Stacks *self, PyObject *args, PyObject *keywords)
{
    PyObject *slot;
    static char *names[] = {"slot", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Stacks", names, &slot)) {
        return -1;
    }
    Py_XSETREF(self->slot, Py_NewRef(slot));
    return 0;
}

/* Whether the present thread or task is in a call of this level. Rewritten code calls this before each of
   a model's modules is called. */
static PyObject *
stacks_inside(Stacks *self, PyObject *Py_UNUSED(ignored))
{
    Stack *stack = stacks_here(self);
    if (stack == NULL) {
        return NULL;
    }
    Entry *top = stack_top(stack);
    if (top != NULL && top->site >= 0) {
        Py_RETURN_TRUE;
    }
    if (self->apart != NULL) {
        return PyObject_CallNoArgs(self->apart);
    }
    Py_RETURN_FALSE;
}

/* The present thread's stack. */
static PyObject *
stacks_stack(Stacks *self, void *Py_UNUSED(closure))
{
    return Py_XNewRef((PyObject *)stacks_here(self));
}

/* The number of the present thread's stack. */
static PyObject *
stacks_number(Stacks *self, void *Py_UNUSED(closure))
{
    Stack *stack = stacks_here(self);
    return stack == NULL ? NULL : PyLong_FromSsize_t(stack->number);
}

/* The slot of the present thread's stack. */
static PyObject *
stacks_slot(Stacks *self, void *Py_UNUSED(closure))
{
    Stack *stack = stacks_here(self);
    return stack == NULL ? NULL : PyLong_FromSsize_t(stack->slot);
}

#define STACKS_CLEARED(EACH) EACH(last) EACH(slot) EACH(apart)
COLLECTED(Stacks, stacks, STACKS_CLEARED, NO_FIELDS)

static PyMethodDef stacks_methods[] = {
    {"inside", (PyCFunction)stacks_inside, METH_NOARGS, "Whether the present thread is in a call."},
    {NULL},
};

static PyGetSetDef stacks_getset[] = {
    {"stack", (getter)stacks_stack, NULL, "The present thread's stack.", NULL},
    {"number", (getter)stacks_number, NULL, "A number of that stack, unlike all others.", NULL},
    {"slot", (getter)stacks_slot, NULL, "Where its topmost call can be seen from outside.", NULL},
    {NULL},
};

static PyMemberDef stacks_members[] = {
    {"apart", T_OBJECT, offsetof(Stacks, apart), 0,
     "apart(): whether a call is open that lies on no stack; None as long as there never was one."},
    {NULL},
};

PyTypeObject Stacks_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Stacks",
    .tp_doc = "The open calls of one level, a stack for each thread.",
    .tp_basicsize = sizeof(Stacks),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)stacks_init,
    COLLECTED_SLOTS(stacks),
    .tp_methods = stacks_methods,
    .tp_getset = stacks_getset,
    .tp_members = stacks_members,
};
