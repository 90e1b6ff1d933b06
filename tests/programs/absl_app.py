from absl import app, flags, logging

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 2, "Steps.")
flags.DEFINE_string("config", "none", "Config.")


def main(argv):
    print(argv[1:], FLAGS.steps, FLAGS.config, flags.FLAGS.find_module_defining_flag("steps"))
    for step in range(FLAGS.steps):
        loss = step * 2
        print(step, loss)
    if FLAGS.steps > 3:
        raise app.UsageError("too many")


if __name__ == "__main__":
    app.run(main)
