import click


@click.group()
@click.option("--config", default="c.yaml", show_default=True)
@click.pass_context
def cli(ctx, config):
    """A click program."""
    ctx.obj = config


@cli.command()
@click.option("--epochs", type=int, required=True)
@click.argument("name")
@click.pass_obj
def train(config, epochs, name):
    for epoch in range(epochs):
        loss = 1 / (epoch + 1)
        click.echo(f"{config} {name} {loss:.2f}")


if __name__ == "__main__":
    cli()
