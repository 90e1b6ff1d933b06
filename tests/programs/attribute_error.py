"""An AttributeError out of the main code is easily taken for one of the launcher's own."""


class Net:
    weights = 1


def use(net):
    return net.weight


use(Net())
