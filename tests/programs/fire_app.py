import fire


class Trainer:
    """Trains."""

    def __init__(self, config="a.yaml"):
        self.config = config

    def train(self, epochs=1, name="x"):
        total = 0
        for epoch in range(epochs):
            total += epoch
        return f"{self.config} {name} {total}"


if __name__ == "__main__":
    fire.Fire(Trainer)
