#include "native.h"

int hooks_ready(void);
int stored_ready(void);
int turns_ready(void);
int tensors_ready(void);
extern PyMethodDef objects_methods[], waits_methods[], tensors_methods[];

/* Fill a module object. It runs again if a program takes the module out of sys.modules and imports it anew:
   types and strings are the same then. */
static int
execute(PyObject *module)
{
    static PyTypeObject *types[] = {&Rows_Type,  &Stack_Type,  &Stacks_Type, &Hooks_Type,  &Turns_Type,
                                    &Timed_Type, &Stored_Type, &Computed_Type,  &Pair_Type,   &Nearest_Type,
                                    &Delegate_Type, &Path_Type, &Shortcut_Type};
    /* A slot below has the same effect, but only from Python 3.12 on, and an embedding program can have it
       ignored. ImportError leads to the twin in Python (../compiled.py). */
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "injector.probe._native runs in the main interpreter only");
        return -1;
    }
    if (hooks_ready() < 0 || stored_ready() < 0 || turns_ready() < 0
        || tensors_ready() < 0) {
        return -1;
    }
    for (size_t each = 0; each < sizeof types / sizeof types[0]; each++) {
        if (PyModule_AddType(module, types[each]) < 0) {
            return -1;
        }
    }
    if (PyModule_AddFunctions(module, objects_methods) < 0
        || PyModule_AddFunctions(module, waits_methods) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, tensors_methods);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_multiple_interpreters /* Python 3.12 */
    /* The types are static, and waits.c replaces functions that all interpreters share. */
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil /* Python 3.13 */
    /* Only the lock guards stacks, rows and what is known of calls; see native.h. */
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

/* No m_traverse, m_clear, m_free: what is static lives as long as the process. */
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "injector.probe._native",
    .m_doc = "What runs between two steps, compiled; see ../plain.py.",
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
