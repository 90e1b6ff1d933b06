/* The hooks of one region: enter() and leave() at the ends of each call, given() on its result.

     A call is measured in C if one like it was seen before: from the same instruction, in the same thread,
   of the same object and phase. Then its site is known, and the call is pushed on its thread's stack until
   it is left. Whatever does not happen at every call, such as finding a new site, is done by methods of the
   derived class in Python (../calls.py): push, skip, refused, left, mistaken, answered. */

#include "native.h"

/* How many call sites, answers and ways a hook remembers. A loop calls a model and a loss, or a generator
   and a discriminator, in turns. */
#define REMEMBERED 4
#define MOST_DEPENDENCIES 8
#define MOST_BETWEEN 64 /* frames of a remembered way */

/* The codes of the frames from the caller outwards to the nearest one of interest. Whether a frame is of
   interest depends on its code alone (nearest.c), so the same codes always lead to the same end. */
typedef struct {
    Py_ssize_t count;         /* 0: there is none */
    PyObject **codes;
} Way;

/* Which instruction calls. `code` is borrowed from a running frame. */
typedef struct {
    PyObject *code;           /* NULL: nothing calls */
    int lasti;
} Spot;

/* A remembered call, and the site of calls like it. */
typedef struct {
    PyObject *code;           /* NULL: there is none */
    int lasti;
    PyObject *of;             /* borrowed and only compared: forget() is called when it dies */
    PyObject *phase;
    Stack *stack;
    int64_t site;
} Place;

/* The phase of calls that count of the object `of`, as long as the dependencies are the same objects. */
typedef struct {
    PyObject *of;             /* borrowed, as above */
    PyObject *phase;          /* NULL: nothing is remembered */
    PyObject *seen[MOST_DEPENDENCIES]; /* what `depends` gave */
} Answered;

typedef struct {
    PyObject_HEAD
    PyObject *call;           /* the owner of its entries on stacks */
    Stacks *stacks;
    Rows *rows;
    PyObject *add;            /* add(start, end, payload, site) in place of that of rows; NULL: that one */
    PyObject *when, *of, *phase, *payload; /* called with a call's variables; NULL: not given */
    PyObject *near;           /* near(frame) gives the nearest frame of interest */
    PyObject *late;           /* late(result, *variables) gives the payload; NULL: not given */
    PyObject *device;         /* mark(), span(begin, start, site); NULL: no device is timed */
    PyObject *clocks;         /* a list: [None] once it is known that there is no device */
    long long most;           /* the largest payload that fits into a row */
    char outermost;           /* whether calls within another one of the level do not count */
    char watched;             /* whether the topmost site is shown to other processes (Rows.opened) */
    char far, apart;          /* see hooks_members */
    long long fired;
    PyObject *depends;        /* a tuple of what the answers depend on; NULL: they are found at each call */
    Place places[REMEMBERED];
    Answered known[REMEMBERED];
    Way ways[REMEMBERED];
    unsigned next_place, next_known, next_way;
} Hooks;

static PyObject *word_push, *word_skip, *word_refused, *word_left, *word_mistaken, *word_mark,
    *word_answered, *word_pauses_until;

/* Pass the exception that is set to mistaken(), which reports one of ours and raises the program's again;
   NULL for the latter. */
static PyObject *
hook_failed(Hooks *self, PyObject *here)
{
    PyObject *error = taken_error();
    PyObject *args[] = {(PyObject *)self, error, here};
    PyObject *done = PyObject_VectorcallMethod(word_mistaken, args, 3, NULL);
    Py_DECREF(error);
    return done;
}

/* Whether __init__() has been called, which sets all that a hook needs; RuntimeError is set if not. */
static int
is_made(Hooks *self)
{
    if (self->call == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "Hooks.__init__() was not called");
        return 0;
    }
    return 1;
}

/* Whether there is a device to mark: it is not known that the program uses none. */
static int
has_device(Hooks *self)
{
    if (self->device == NULL) {
        return 0;
    }
    PyObject *known = self->clocks;
    return !(known != NULL && PyList_GET_SIZE(known) == 1 && PyList_GET_ITEM(known, 0) == Py_None);
}

/* Whether the device's marks pause at `now`: most of the time they do, and mark() would only find that out by
   a call into Python. */
static int
pauses(Hooks *self, int64_t now)
{
    PyObject *until = PyObject_GetAttr(self->device, word_pauses_until);
    long long moment = until == NULL ? -1 : PyLong_AsLongLong(until);
    Py_XDECREF(until);
    if (moment == -1 && PyErr_Occurred()) {
        PyErr_Clear();
    }
    return now < moment;
}

/* What a function gives for the variables of a call: a new reference, None if there is no function, NULL
   with an exception set. A Path is read without a call. */
static PyObject *
ask_function(PyObject *function, PyObject *const *values, Py_ssize_t count)
{
    if (function == NULL) {
        return Py_NewRef(Py_None);
    }
    if (Py_IS_TYPE(function, &Path_Type)) {
        return path_of(function, values, count);
    }
    return PyObject_Vectorcall(function, values, count, NULL);
}

/* A number as a payload that fits into a row, from 0 to `most`, 0 for None; -1 with an exception set. */
static long long
as_payload(PyObject *found, long long most)
{
    if (found == Py_None) {
        return 0;
    }
    PyObject *whole = PyLong_Check(found) ? Py_NewRef(found) : PyNumber_Long(found);
    if (whole == NULL) {
        return -1;
    }
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(whole, &overflow);
    Py_DECREF(whole);
    if (number == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (overflow > 0 || number > most) {
        return most;
    }
    return overflow < 0 || number < 0 ? 0 : number;
}

/* Whether two phases are the same object or equal text; `other` may be NULL. */
static int
same_phase(PyObject *one, PyObject *other)
{
    if (one == other) {
        return 1;
    }
    return other != NULL && PyUnicode_Check(one) && PyUnicode_Check(other)
        && PyUnicode_Compare(one, other) == 0;
}

/* Drop a way. It is emptied first: dropping its codes may run code that comes back here. */
static void
forget_way(Way *way)
{
    Way old = *way;
    *way = (Way){0};
    while (old.count > 0) {
        Py_DECREF(old.codes[--old.count]);
    }
    PyMem_Free(old.codes);
}

/* The frame that `way` leads to from `frame`, the caller; NULL if the codes differ. */
static Running *
end_of_way(const Way *way, Running *frame)
{
    for (Py_ssize_t each = 0; frame != NULL && each < way->count; each++) {
        if (running_code(frame) != way->codes[each]) {
            return NULL;
        }
        if (each == way->count - 1) {
            return frame;
        }
        frame = running_before(frame);
    }
    return NULL;
}

/* Remember the way from `caller` to the spot `near`, unless it is too long or memory is short. */
static void
keep_way(Hooks *self, Running *caller, const Spot *near)
{
    Py_ssize_t count = 1;
    Running *frame = caller;
    while (frame != NULL && running_code(frame) != near->code && count < MOST_BETWEEN) {
        frame = running_before(frame);
        count++;
    }
    PyObject **codes = frame == NULL || running_code(frame) != near->code
        ? NULL : PyMem_Calloc(count, sizeof *codes);
    if (codes == NULL) {
        return;
    }
    Way *way = &self->ways[self->next_way++ % REMEMBERED];
    forget_way(way);
    *way = (Way){count, codes};
    for (Py_ssize_t each = 0; each < count; each++) {
        codes[each] = Py_NewRef(running_code(caller));
        caller = running_before(caller);
    }
}

/* Find the nearest frame of interest by `near`, and remember the way there; -1 with an exception set. If
   there is none, the caller is the spot. */
static int
find_near(Hooks *self, Spot *spot)
{
    PyFrameObject *caller = PyFrame_GetBack(PyEval_GetFrame());
    PyObject *near = PyObject_CallOneArg(self->near, (PyObject *)caller);
    if (near == NULL) {
        Py_DECREF(caller);
        return -1;
    }
    int found = PyFrame_Check(near);
    PyFrameObject *frame = found ? (PyFrameObject *)near : caller;
    PyCodeObject *code = PyFrame_GetCode(frame);
    *spot = (Spot){(PyObject *)code, frame_lasti(frame)};
    Py_DECREF(code);
    Py_DECREF(near);
    Py_DECREF(caller);
    if (found && Py_IS_TYPE(self->near, &Nearest_Type)) {
        keep_way(self, running_before(running_frame()), spot);
    }
    return 0;
}

/* The spot that tells this call from others: the caller's, or if a library calls (`far`) that of the
   nearest frame of interest. -1 with an exception set. */
static int
calling_spot(Hooks *self, Spot *spot)
{
    Running *here = running_frame(), *caller = here == NULL ? NULL : running_before(here);
    if (caller != NULL && self->far) {
        Running *near = NULL;
        for (int each = 0; near == NULL && each < REMEMBERED; each++) {
            near = end_of_way(&self->ways[each], caller);
        }
        if (near == NULL) {
            return find_near(self, spot);
        }
        caller = near;
    }
    *spot = caller == NULL ? (Spot){0} : (Spot){running_code(caller), running_lasti(caller)};
    return 0;
}

/* The site of a call like this one that is remembered; 0 if there is none, -2 with an exception set. */
static int64_t
known_site(Hooks *self, Stack *stack, PyObject *of, PyObject *phase)
{
    Spot spot;
    if (self->places[0].code == NULL) {
        return 0;
    }
    if (calling_spot(self, &spot) < 0) {
        return -2;
    }
    for (int each = 0; spot.code != NULL && each < REMEMBERED; each++) {
        Place *place = &self->places[each];
        if (place->code == spot.code && place->lasti == spot.lasti && place->stack == stack
            && place->of == of && same_phase(phase, place->phase)) {
            return place->site;
        }
    }
    return 0;
}

/* Drop a remembered phase. */
static void
forget_answers(Answered *known)
{
    known->of = NULL;
    Py_CLEAR(known->phase);
    for (int each = 0; each < MOST_DEPENDENCIES; each++) {
        Py_CLEAR(known->seen[each]);
    }
}

/* Fill `seen` with new references to what the answers depend on. Returns how many, -1 if that cannot be
   known, -2 with an exception set that is the program's. Functions in C without arguments, which these
   usually are, are called directly. */
static Py_ssize_t
read_dependencies(Hooks *self, PyObject *const *values, Py_ssize_t count,
                  PyObject *seen[MOST_DEPENDENCIES])
{
    Py_ssize_t size = PyTuple_GET_SIZE(self->depends);
    for (Py_ssize_t each = 0; each < size; each++) {
        PyObject *what = PyTuple_GET_ITEM(self->depends, each);
        if (Py_IS_TYPE(what, &Path_Type)) {
            seen[each] = path_of(what, values, count);
        } else if (PyCFunction_CheckExact(what) && PyCFunction_GET_FLAGS(what) == METH_NOARGS) {
            seen[each] = PyCFunction_GET_FUNCTION(what)(PyCFunction_GET_SELF(what), NULL);
        } else {
            seen[each] = PyObject_CallNoArgs(what);
        }
        if (seen[each] == NULL) {
            while (each > 0) {
                Py_DECREF(seen[--each]);
            }
            return forgotten() ? -1 : -2;
        }
    }
    return size;
}

/* The phase that is remembered for this object and these dependencies, which are compared by identity;
   NULL if there is none. */
static Answered *
known_answers(Hooks *self, PyObject *of, PyObject *seen[], Py_ssize_t size)
{
    for (int each = 0; each < REMEMBERED; each++) {
        Answered *known = &self->known[each];
        if (known->phase != NULL && known->of == of
            && memcmp(known->seen, seen, size * sizeof *seen) == 0) {
            return known;
        }
    }
    return NULL;
}

/* Begin a call of which all is known: mark the device, show the site to other processes, push an entry. -1
   with an exception set. */
static int
begin(Hooks *self, Stack *stack, int64_t site, int64_t start, long long payload)
{
    PyObject *mark = NULL;
    if (has_device(self) && !pauses(self, start)) {
        mark = PyObject_CallMethodNoArgs(self->device, word_mark);
        if (mark == NULL) {
            return -1;
        }
        if (mark == Py_None) {
            Py_CLEAR(mark);
        }
    }
    if (self->watched) {
        rows_open(self->rows, stack->slot, site);
    }
    return stack_push(stack, self->call, site, start, payload, mark);
}

/* Have push() find the site of a call in Python, and begin the call; -1 with an exception set. */
static int
push_slowly(Hooks *self, Stack *stack, PyObject *of, PyObject *phase,
            long long payload, PyObject *rest)
{
    PyObject *number = PyLong_FromLongLong(payload);
    if (number == NULL) {
        return -1;
    }
    PyObject *args[] = {(PyObject *)self, NONE_IF_NULL(PyEval_GetFrame()), (PyObject *)stack,
                        of, phase, number, rest};
    PyObject *done = PyObject_VectorcallMethod(word_push, args, 7, NULL);
    Py_DECREF(number);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The `values` as a tuple; NULL with an exception set. */
static PyObject *
tuple_of(PyObject *const *values, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t each = 0; made != NULL && each < count; each++) {
        PyTuple_SET_ITEM(made, each, Py_NewRef(values[each]));
    }
    return made;
}

/* Whether the call counts by `when`; 0 after skip() has noted one that does not; -1 with an exception set. */
static int
counts(Hooks *self, Stack *stack, PyObject *const *values, Py_ssize_t count)
{
    if (self->when == NULL) {
        return 1;
    }
    PyObject *found = PyObject_Vectorcall(self->when, values, count, NULL);
    int true_ = found == NULL ? -1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    if (true_ == 0 && running_frame() != NULL) {
        PyObject *args[] = {(PyObject *)self, NONE_IF_NULL(PyEval_GetFrame()), (PyObject *)stack};
        PyObject *done = PyObject_VectorcallMethod(word_skip, args, 3, NULL);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    return true_;
}

/* Begin a call whose object and phase are known; -1 with an exception set, with the call not begun. */
static int
begin_call(Hooks *self, Stack *stack, int64_t start, PyObject *of, PyObject *phase,
           PyObject *const *values, Py_ssize_t count)
{
    PyObject *found = self->payload == NULL ? NULL : ask_function(self->payload, values, count);
    long long payload = found != NULL ? as_payload(found, self->most) : self->payload == NULL ? 0 : -1;
    Py_XDECREF(found);
    int64_t site = payload < 0 ? -2 : known_site(self, stack, of, phase);
    if (site == -2) {
        return -1;
    }
    if (site != 0) {
        return begin(self, stack, site, start, payload);
    }
    if (running_frame() == NULL) {
        return 0; /* no code of Python's calls: there is no site */
    }
    PyObject *rest = tuple_of(values, count);
    int failed = rest == NULL ? -1 : push_slowly(self, stack, of, phase, payload, rest);
    Py_XDECREF(rest);
    return failed;
}

/* Remember the phase of calls of this object; takes the references in `seen`. */
static void
keep_answers(Hooks *self, PyObject *of, PyObject *phase, PyObject **seen, Py_ssize_t size)
{
    Answered *known = &self->known[self->next_known++ % REMEMBERED];
    forget_answers(known);
    known->of = of;
    known->phase = Py_NewRef(phase);
    memcpy(known->seen, seen, size * sizeof *seen);
}

/* Find out whether the call counts, its object and its phase, unless these answers are remembered, and
   begin it; -1 with an exception set, with the call not begun. If answers are remembered, `of` is a Path,
   which can be read before it is known whether the call counts. */
static int
ask_and_begin(Hooks *self, Stack *stack, int64_t start, PyObject *const *values, Py_ssize_t count)
{
    PyObject *of = NULL, *phase = NULL, *seen[MOST_DEPENDENCIES];
    Py_ssize_t size = self->depends == NULL ? -1 : read_dependencies(self, values, count, seen);
    int failed = size == -2 ? -1 : 1;
    if (size >= 0 && (of = ask_function(self->of, values, count)) == NULL) {
        failed = -1;
    } else if (size >= 0) {
        Answered *known = known_answers(self, of, seen, size);
        phase = known == NULL ? NULL : Py_NewRef(known->phase);
    }
    int is_new = phase == NULL;
    if (failed > 0 && is_new && (failed = counts(self, stack, values, count)) > 0
        && ((of == NULL && (of = ask_function(self->of, values, count)) == NULL)
            || (phase = ask_function(self->phase, values, count)) == NULL)) {
        failed = -1;
    }
    if (failed > 0) {
        failed = begin_call(self, stack, start, of, phase, values, count);
        if (!failed && is_new && size >= 0) { /* only now push() has the death of the object watched */
            keep_answers(self, of, phase, seen, size);
            size = 0;
        }
    }
    while (size > 0) {
        Py_DECREF(seen[--size]);
    }
    Py_XDECREF(of);
    Py_XDECREF(phase);
    return failed;
}

/* Asking raised: have refused() find out in Python which function did, and what is known without it; -1
   with an exception set. */
static int
ask_in_python(Hooks *self, Stack *stack, PyObject *const *values, Py_ssize_t count)
{
    if (running_frame() == NULL) {
        return forgotten() ? 0 : -1;
    }
    PyObject *error = taken_error();
    PyObject *rest = tuple_of(values, count);
    if (rest == NULL) {
        Py_DECREF(error);
        return -1;
    }
    PyObject *args[] = {(PyObject *)self, error, NONE_IF_NULL(PyEval_GetFrame()), (PyObject *)stack,
                        rest};
    PyObject *done = PyObject_VectorcallMethod(word_refused, args, 5, NULL);
    Py_DECREF(error);
    Py_DECREF(rest);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The hook at the begin of a function: begin a call, and return its value. */
static PyObject *
hooks_enter(Hooks *self, PyObject *const *args, Py_ssize_t count)
{
    int64_t start = clock_ns(); /* first: the time of the functions below belongs to the call */
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "enter() takes a value");
        return NULL;
    }
    if (!is_made(self)) {
        return NULL;
    }
    self->fired++;
    Stack *stack = stacks_here(self->stacks);
    if (stack == NULL) {
        return forgotten() ? Py_NewRef(args[0]) : NULL;
    }
    Entry *top = self->outermost ? stack_top(stack) : NULL;
    if (top != NULL && top->site >= 0) {
        return stack_push(stack, self->call, 0, 0, 0, NULL) < 0 ? NULL : Py_NewRef(args[0]);
    }
    Py_INCREF(stack); /* they may run anything: after a fork the child has other stacks */
    int failed = ask_and_begin(self, stack, start, args + 1, count - 1);
    if (failed) {
        failed = ask_in_python(self, stack, args + 1, count - 1);
    }
    Py_DECREF(stack);
    return failed ? NULL : Py_NewRef(args[0]);
}

/* End the call on top of the stack: write its row, show the site around it, time the device. -1 with an
   exception set. */
static int
end_call(Hooks *self, Stack *stack, int64_t end)
{
    Entry entry = stack->entries[--stack->depth];
    int failed = 0;
    if (entry.site > 0) {
        failed = add_row(self->rows, self->add, entry.start, end, entry.payload, entry.site);
        if (self->watched && !failed) {
            Entry *top = stack_top(stack);
            rows_open(self->rows, stack->slot, top == NULL ? 0 : top->site);
        }
        if (entry.mark != NULL && self->device != NULL && !failed) {
            PyObject *done = PyObject_CallMethod(self->device, "span", "OLL", entry.mark,
                                                 (long long)entry.start, (long long)entry.site);
            Py_XDECREF(done);
            failed = done == NULL ? -1 : 0;
        }
    }
    Py_DECREF(entry.owner);
    Py_XDECREF(entry.mark);
    return failed;
}

/* Have left() end a call in Python that is not on top of its stack; -1 with an exception set. */
static int
end_slowly(Hooks *self, PyObject *here, Stack *stack, int64_t end)
{
    PyObject *number = PyLong_FromLongLong(end);
    if (number == NULL) {
        return -1;
    }
    PyObject *args[] = {(PyObject *)self, here, (PyObject *)stack, number};
    PyObject *done = PyObject_VectorcallMethod(word_left, args, 4, NULL);
    Py_DECREF(number);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The hook at the end of a function, however it ends: end the call, and return its value. A generator's
   call, or one above which others are still open, is ended in Python. */
static PyObject *
hooks_leave(Hooks *self, PyObject *const *args, Py_ssize_t count)
{
    int64_t end = clock_ns();
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "leave() takes a value");
        return NULL;
    }
    if (!is_made(self)) {
        return NULL;
    }
    Stack *stack = stacks_here(self->stacks);
    if (stack == NULL) {
        return forgotten() ? Py_NewRef(args[0]) : NULL;
    }
    Py_INCREF(stack);
    Entry *top = stack_top(stack);
    int failed = 0;
    if (!self->apart && top != NULL && top->owner == self->call) {
        failed = end_call(self, stack, end);
    } else {
        failed = end_slowly(self, NONE_IF_NULL(PyEval_GetFrame()), stack, end);
    }
    Py_DECREF(stack);
    if (failed) {
        PyObject *done = hook_failed(self, NONE_IF_NULL(PyEval_GetFrame()));
        if (done == NULL) {
            return NULL;
        }
        Py_DECREF(done);
    }
    return Py_NewRef(args[0]);
}

/* Have answered() deal in Python with a call that returns `args[0]`. */
static PyObject *
answered_slowly(Hooks *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *rest = tuple_of(args + 1, count - 1);
    if (rest == NULL) {
        return NULL;
    }
    PyObject *all[] = {(PyObject *)self, NONE_IF_NULL(PyEval_GetFrame()), args[0], rest};
    PyObject *done = PyObject_VectorcallMethod(word_answered, all, 4, NULL);
    Py_DECREF(rest);
    return done;
}

/* The hook on the result of a function: find the payload by `late`, and return the result. */
static PyObject *
hooks_given(Hooks *self, PyObject *const *args, Py_ssize_t count)
{
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "given() takes a value");
        return NULL;
    }
    if (!is_made(self)) {
        return NULL;
    }
    Stack *stack = stacks_here(self->stacks);
    if (stack == NULL) {
        return forgotten() ? Py_NewRef(args[0]) : NULL;
    }
    Entry *top = stack_top(stack);
    PyObject *done;
    if (self->late == NULL || self->apart || top == NULL || top->owner != self->call) {
        done = answered_slowly(self, args, count);
    } else if (top->site <= 0) {
        return Py_NewRef(args[0]);
    } else {
        Py_INCREF(stack);
        Py_ssize_t depth = stack->depth;
        PyObject *found = PyObject_Vectorcall(self->late, args, count, NULL);
        long long payload = found == NULL ? -1 : as_payload(found, self->most);
        if (payload >= 0 && stack->depth == depth) { /* `late` may have begun calls, or ended this one */
            stack->entries[depth - 1].payload = payload;
        }
        Py_XDECREF(found);
        Py_DECREF(stack);
        done = payload < 0 ? NULL : Py_NewRef(Py_None);
    }
    if (done == NULL && (done = hook_failed(self, NONE_IF_NULL(PyEval_GetFrame()))) == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return Py_NewRef(args[0]);
}

/* Drop a remembered call. */
static void
forget_place(Place *place)
{
    place->of = NULL;
    Py_CLEAR(place->code);
    Py_CLEAR(place->phase);
    Py_CLEAR(place->stack);
}

/* Remember the site of calls like this one in place of the oldest; the twin of known_site(). */
static PyObject *
hooks_remember(Hooks *self, PyObject *args)
{
    PyObject *code, *of, *phase, *stack;
    int lasti;
    long long site;
    if (!PyArg_ParseTuple(args, "OiOOO!L:remember", &code, &lasti, &of, &phase, &Stack_Type, &stack,
                          &site)) {
        return NULL;
    }
    Place *place = &self->places[self->next_place++ % REMEMBERED];
    forget_place(place);
    *place = (Place){Py_NewRef(code), lasti, of, Py_NewRef(phase), (Stack *)Py_NewRef(stack), site};
    Py_RETURN_NONE;
}

/* Drop all remembered calls and answers, since their objects may have died: `of` is compared by address. */
static void
forget(Hooks *self)
{
    for (int each = 0; each < REMEMBERED; each++) {
        forget_place(&self->places[each]);
        forget_answers(&self->known[each]);
    }
    self->next_place = self->next_known = 0;
}

/* forget() for callers in Python. */
static PyObject *
hooks_forget(Hooks *self, PyObject *Py_UNUSED(ignored))
{
    forget(self);
    Py_RETURN_NONE;
}

/* Hooks(call, stacks, …): see its tp_doc for the order of arguments. */
static int
hooks_init(Hooks *self, PyObject *args, PyObject *keywords)
{
    PyObject *call, *stacks, *rows, *add, *when, *of, *phase, *payload, *late, *near, *device, *clocks,
        *depends = Py_None;
    long long most;
    int outermost, watched;
    if (!PyArg_ParseTuple(args, "OO!O!OOOOOOOOOLpp|O:Hooks", &call, &Stacks_Type, &stacks, &Rows_Type,
                          &rows, &add, &when, &of, &phase, &payload, &late, &near, &device, &clocks,
                          &most, &outermost, &watched, &depends)) {
        return -1;
    }
    if (clocks != Py_None && !PyList_Check(clocks)) {
        PyErr_SetString(PyExc_TypeError, "clocks is a list, or None");
        return -1;
    }
    if (depends != Py_None
        && (!PyTuple_Check(depends) || PyTuple_GET_SIZE(depends) > MOST_DEPENDENCIES
            || !(of == Py_None || Py_IS_TYPE(of, &Path_Type)))) {
        PyErr_SetString(PyExc_TypeError, "depends is a tuple of a few, and of is a Path then");
        return -1;
    }
    forget(self);
    Py_XSETREF(self->depends, kept(depends));
    Py_XSETREF(self->call, Py_NewRef(call));
    Py_XSETREF(self->stacks, (Stacks *)Py_NewRef(stacks));
    Py_XSETREF(self->rows, (Rows *)Py_NewRef(rows));
    Py_XSETREF(self->add, foreign_add((Rows *)rows, add));
    Py_XSETREF(self->when, kept(when));
    Py_XSETREF(self->of, kept(of));
    Py_XSETREF(self->phase, kept(phase));
    Py_XSETREF(self->payload, kept(payload));
    Py_XSETREF(self->late, kept(late));
    Py_XSETREF(self->near, Py_NewRef(near));
    Py_XSETREF(self->device, kept(device));
    Py_XSETREF(self->clocks, kept(clocks));
    self->most = most;
    self->outermost = (char)outermost;
    self->watched = (char)watched;
    return 0;
}

/* Show the collector all references but `of`, which are borrowed. */
static int
hooks_traverse(Hooks *self, visitproc visit, void *arg)
{
    Py_VISIT(self->call);
    Py_VISIT(self->stacks);
    Py_VISIT(self->rows);
    Py_VISIT(self->add);
    Py_VISIT(self->when);
    Py_VISIT(self->of);
    Py_VISIT(self->phase);
    Py_VISIT(self->payload);
    Py_VISIT(self->late);
    Py_VISIT(self->near);
    Py_VISIT(self->device);
    Py_VISIT(self->clocks);
    Py_VISIT(self->depends);
    for (int each = 0; each < REMEMBERED; each++) {
        Py_VISIT(self->places[each].code);
        Py_VISIT(self->places[each].phase);
        Py_VISIT(self->places[each].stack);
        Py_VISIT(self->known[each].phase);
        for (int one = 0; one < MOST_DEPENDENCIES; one++) {
            Py_VISIT(self->known[each].seen[one]);
        }
        for (Py_ssize_t one = 0; one < self->ways[each].count; one++) {
            Py_VISIT(self->ways[each].codes[one]);
        }
    }
    return 0;
}

/* Drop all that asks and remembers. `stacks` and `rows` are left: what is collected together with a hook may
   still call it, and its span is recorded; a cycle through them is broken by their own tp_clear. So are
   `call` and `near`, without which no call can begin: objects of Python (../calls.py), whose tp_clear breaks
   a cycle. */
static int
hooks_clear(Hooks *self)
{
    Py_CLEAR(self->add);
    Py_CLEAR(self->when);
    Py_CLEAR(self->of);
    Py_CLEAR(self->phase);
    Py_CLEAR(self->payload);
    Py_CLEAR(self->late);
    Py_CLEAR(self->device);
    Py_CLEAR(self->clocks);
    Py_CLEAR(self->depends);
    forget(self);
    for (int each = 0; each < REMEMBERED; each++) {
        forget_way(&self->ways[each]);
    }
    return 0;
}

/* Drop the rest with the object itself. */
static void
hooks_dealloc(Hooks *self)
{
    PyObject_GC_UnTrack(self);
    hooks_clear(self);
    Py_CLEAR(self->call);
    Py_CLEAR(self->near);
    Py_CLEAR(self->stacks);
    Py_CLEAR(self->rows);
    Py_TYPE(self)->tp_free(self);
}

/* `stacks` for readers in Python. */
static PyObject *
hooks_get_stacks(Hooks *self, void *Py_UNUSED(closure))
{
    return is_made(self) ? Py_NewRef((PyObject *)self->stacks) : NULL;
}

/* Exchange `stacks`: in the child of a fork new ones are begun. */
static int
hooks_set_stacks(Hooks *self, PyObject *given, void *Py_UNUSED(closure))
{
    if (!is_made(self)) {
        return -1;
    }
    if (given == NULL || !PyObject_TypeCheck(given, &Stacks_Type)) {
        PyErr_SetString(PyExc_TypeError, "stacks are Stacks");
        return -1;
    }
    Py_SETREF(self->stacks, (Stacks *)Py_NewRef(given));
    return 0;
}

static PyMethodDef hooks_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))hooks_enter, METH_FASTCALL,
     "enter(value, *variables): the hook where the function is entered."},
    {"leave", (PyCFunction)(void (*)(void))hooks_leave, METH_FASTCALL,
     "leave(value, *_): the hook where it is left."},
    {"given", (PyCFunction)(void (*)(void))hooks_given, METH_FASTCALL,
     "given(result, *variables): the hook on what the function returns."},
    {"remember", (PyCFunction)hooks_remember, METH_VARARGS,
     "remember(code, lasti, of, phase, stack, site): the site of calls like this one."},
    {"forget", (PyCFunction)hooks_forget, METH_NOARGS, "Ask anew at the next call."},
    {NULL},
};

static PyGetSetDef hooks_getset[] = {
    {"stacks", (getter)hooks_get_stacks, (setter)hooks_set_stacks, "Those of the region's level.", NULL},
    {NULL},
};

static PyMemberDef hooks_members[] = {
    {"fired", T_LONGLONG, offsetof(Hooks, fired), READONLY, "Calls so far."},
    {"far", T_BOOL, offsetof(Hooks, far), 0,
     "A library calls: what tells calls from each other is a frame further out."},
    {"apart", T_BOOL, offsetof(Hooks, apart), 0,
     "The function is a generator, whose spans do not nest."},
    {NULL},
};

PyTypeObject Hooks_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "injector.probe._native.Hooks",
    .tp_doc = "Hooks(call, stacks, rows, add, when, of, phase, payload, late, near, device, clocks, "
              "most, outermost, watched, depends=None)",
    .tp_basicsize = sizeof(Hooks),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)hooks_init,
    .tp_traverse = (traverseproc)hooks_traverse,
    .tp_clear = (inquiry)hooks_clear,
    .tp_dealloc = (destructor)hooks_dealloc,
    .tp_methods = hooks_methods,
    .tp_members = hooks_members,
    .tp_getset = hooks_getset,
};

/* Make the strings that name methods; -1 with an exception set. */
int
hooks_ready(void)
{
    struct { PyObject **word; const char *text; } words[] = {
        {&word_push, "push"},   {&word_skip, "skip"},         {&word_refused, "refused"},
        {&word_left, "left"},   {&word_mistaken, "mistaken"}, {&word_mark, "mark"},
        {&word_answered, "answered"},      {&word_pauses_until, "pauses_until"},
    };
    for (size_t each = 0; each < sizeof words / sizeof words[0]; each++) {
        *words[each].word = PyUnicode_InternFromString(words[each].text);
        if (*words[each].word == NULL) {
            return -1;
        }
    }
    return 0;
}
