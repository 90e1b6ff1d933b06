def explode(kind):
    value = {"a": 1}
    return value[kind]


explode("missing")
