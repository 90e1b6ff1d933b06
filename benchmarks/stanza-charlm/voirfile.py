"""Characters a second of stanza's character language model.

Its loop is a ``while`` in a plain function, without a data loader: the optimizer paces its steps. The
model is called with a table of characters, all of which are predicted at once.
"""


def instrument_training(ov):
    model = "/stanza.models.common.char_model/CharacterLanguageModel"
    ov.region(f"{model}/forward", "forward", items=lambda chars: chars.numel())
    ov.region("//evaluate_and_save", "evaluation", phase="eval")
