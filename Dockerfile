# Stoker on Linux, with the CPU backend of MLX. Models, KV and the journal are in the volume /var/lib/stoker.
FROM python:3.11.13-slim-bookworm

# Preloaded for the engine; without it MLX on a CPU reads prompts about 20 times slower.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libopenblas0-pthread \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/stoker
COPY requirements.lock .
RUN pip install --no-cache-dir --only-binary :all: --require-hashes -r requirements.lock
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

RUN useradd --uid 10001 --create-home stoker && install --directory --owner=stoker --group=stoker /var/lib/stoker
USER stoker
ENV STOKER_HOME=/var/lib/stoker
VOLUME /var/lib/stoker
EXPOSE 8000 8001

# Ready is what counts: alive and unable to answer is not healthy. The first start fetches a model.
HEALTHCHECK --interval=30s --timeout=6s --start-period=10m --retries=3 CMD [ \
    "python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=5)"]

ENTRYPOINT ["stoker"]
CMD ["serve"]
