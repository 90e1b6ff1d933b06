# For NVIDIA's GPUs:  docker build --file docker/cuda.Dockerfile --tag injector:cuda .
# Another base, a certain version or one of your own:  --build-arg BASE=IMAGE
ARG BASE=pytorch/pytorch:latest
FROM ${BASE}
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_CACHE_DIR=1
# torch.compile wants a compiler, too.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /opt/injector
RUN pip install "/opt/injector[suite,sample,page]"
