#include "native.h"

int hooks_ready(void);
int stored_ready(void);
int turns_ready(void);
extern PyMethodDef waits_methods[];

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "injector.probe._native",
    .m_doc = "What runs between two steps, compiled; see ../plain.py.",
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    static PyTypeObject *types[] = {&Rows_Type,  &Stack_Type,  &Stacks_Type, &Hooks_Type,  &Turns_Type,
                                    &Timed_Type, &Stored_Type, &Asked_Type,  &Pair_Type,   &Nearest_Type,
                                    &Delegate_Type};
    if (hooks_ready() < 0 || stored_ready() < 0 || turns_ready() < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    for (size_t each = 0; module != NULL && each < sizeof types / sizeof types[0]; each++) {
        if (PyModule_AddType(module, types[each]) < 0) {
            Py_CLEAR(module);
        }
    }
    if (module != NULL && PyModule_AddFunctions(module, waits_methods) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
