# For processors:  docker build --file docker/cpu.Dockerfile --tag injector:cpu .
# Any image with Python from 3.10 can be the base, such as one that has your program's packages already.
ARG BASE=python:3.12-slim
FROM ${BASE}
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_CACHE_DIR=1
# torch.compile wants a compiler, too.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN pip install torch --index-url ${TORCH_INDEX}
COPY . /opt/injector
RUN pip install "/opt/injector[suite,sample,page]"
