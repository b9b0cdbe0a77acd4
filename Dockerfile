# The operator with Helm 4, and without charts. An operator for your charts is this image and two copies:
#
#   FROM helm-operator:0.1.0
#   COPY watches.yaml ${HOME}/watches.yaml
#   COPY helm-charts ${HOME}/helm-charts
#
# That is operator-sdk's layout, so a Dockerfile made for its helm-operator image needs only another FROM.
# Bases are named by tag: give --build-arg GO=…@sha256:… and PYTHON=…@sha256:… for a build from known bytes.
# Whatever else is fetched is checked: Go modules against go.sum, Python packages against the hashes in requirements/.

ARG GO=golang:1.26.8-bookworm
ARG PYTHON=python:3.11-slim-bookworm

# --- Helm, from its source -------------------------------------------------------------------------------------------
FROM ${GO} AS helm
ENV CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN=local
WORKDIR /src
COPY tools/localcluster/modules/helm4/ ./
RUN version="$(go list -m -f '{{.Version}}' helm.sh/helm/v4)" \
    && go build -trimpath -buildvcs=false \
        -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=${version}" \
        -o /out/helm helm.sh/helm/v4/cmd/helm

# --- The operator's wheel, and an environment without pip -------------------------------------------------------------
FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements/ requirements/
# dev.txt has the build backend, with hashes, for this stage alone.
RUN python -m venv --without-pip /opt/venv \
    && python -m pip --python /opt/venv/bin/python install --require-hashes -r requirements/runtime.txt \
    && python -m venv /build \
    && /build/bin/pip install --require-hashes -r requirements/dev.txt
COPY pyproject.toml README.md LICENSE ./
COPY helm_operator/ helm_operator/
RUN /build/bin/pip wheel --no-build-isolation --no-deps --wheel-dir /dist . \
    && python -m pip --python /opt/venv/bin/python install --no-deps --no-index /dist/*.whl

# --- What runs --------------------------------------------------------------------------------------------------------
FROM ${PYTHON}
LABEL org.opencontainers.image.title="helm-operator" \
      org.opencontainers.image.description="One Helm release for each custom resource" \
      org.opencontainers.image.licenses="Apache-2.0"
# Nothing is written below HOME: the root file system may be read-only, with a writable /tmp.
ENV HOME=/opt/helm \
    PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    KUBECACHEDIR=/tmp/kube
WORKDIR ${HOME}
COPY LICENSE /licenses/LICENSE
COPY --from=helm /out/helm /usr/local/bin/helm
COPY --from=build /opt/venv /opt/venv
USER 1001:1001
EXPOSE 8081
ENTRYPOINT ["helm-operator"]
CMD ["run", "--watches-file=/opt/helm/watches.yaml"]
