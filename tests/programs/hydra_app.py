import os

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

ConfigStore.instance().store(name="config", node={"lr": 0.1, "model": {"width": 3}})


@hydra.main(version_base=None, config_name="config")
def main(cfg):
    loss = cfg.lr * cfg.model.width
    print(OmegaConf.to_yaml(cfg), loss, os.path.basename(os.getcwd()))
    print(hydra.utils.get_original_cwd() == os.getcwd())
    if loss > 10:
        raise ValueError(loss)


if __name__ == "__main__":
    main()
