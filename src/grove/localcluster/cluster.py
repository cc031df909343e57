"""Bringing a cluster up and down, and what one can do with it while it runs.

`up` prepares files, starts the supervisor, and lets it start the components wave by wave; between the API server and
the controllers the base objects are created. A lock beside the cluster's folder keeps two of these operations apart.
"""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from grove.localcluster import operator, supervision
from grove.localcluster.binaries import ensure_built
from grove.localcluster.components import (
    GROVE_NAMESPACE,
    OPERATOR_ACCOUNT,
    OPERATOR_WEBHOOKS,
    POD_GROUPER_ACCOUNT,
    Component,
    Surroundings,
    Wave,
    components_for,
    groups_for,
    kubectl_binary,
    port_names,
)
from grove.localcluster.errors import ComponentError, LocalClusterError, NotRunningError
from grove.localcluster.kubeconfig import (
    Server,
    certificate_user,
    render_kubeconfig,
    token_user,
    write_kubeconfig,
)
from grove.localcluster.locks import exclusive
from grove.localcluster.ports import LOOPBACK, load_ports, pick_ports, store_ports
from grove.localcluster.processes import end_processes, marker_for, processes_of, wait_until_gone
from grove.localcluster.progress import Progress, SilentProgress, reporting
from grove.localcluster.rest import ApiServer
from grove.localcluster.spec import DEFAULT_NAME, ClusterFiles, ClusterSpec, Scheduler, default_data_dir, stored_spec
from grove.localcluster.states import ComponentState, ComponentStatus, SupervisorStatus

_SHUTDOWN_LIMIT = 45.0


@dataclass(frozen=True)
class RunningCluster:
    """A cluster that is up."""

    spec: ClusterSpec
    was_running: bool = False

    @property
    def files(self) -> ClusterFiles:
        return ClusterFiles(self.spec.folder)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.files.admin_kubeconfig

    @property
    def server(self) -> Server:
        port = load_ports(self.files.ports)["apiserver"]
        return Server(f"grove-local-{self.spec.name}", f"https://{LOOPBACK}:{port}", self.files.pki / "ca.crt")

    @property
    def url(self) -> str:
        return self.server.url

    def api(self) -> ApiServer:
        """A blocking client with the administrator's rights; use it as a context manager."""
        return ApiServer(self.url, self.files.pki, "admin")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator; its output, or a LocalClusterError with what it complained about."""
        command = [str(kubectl_binary()), "--kubeconfig", str(self.kubeconfig), *arguments]
        answer = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise LocalClusterError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    def components(self) -> dict[str, ComponentStatus]:
        """How every component is right now."""
        status = supervision.current_status(self.files)
        if status is None:
            raise NotRunningError(f"cluster {self.spec.name} is not running")
        return dict(status.components)


def cluster_folder(name: str = DEFAULT_NAME, data_dir: Path | None = None) -> Path:
    """The folder of a cluster that is named by name or by folder."""
    return (data_dir or default_data_dir(name)).absolute()


def up(spec: ClusterSpec, progress: Progress | None = None) -> RunningCluster:
    """Start the cluster, or find it running. Raises ComponentError with the log's end when a component fails."""
    progress = progress or SilentProgress()
    files = ClusterFiles(spec.folder)
    with exclusive(files.lock):
        status = supervision.current_status(files)
        if status is not None:
            _refuse_broken(files, status)
            return RunningCluster(stored_spec(spec.folder) or spec, was_running=True)
        end_processes(marker_for(files.folder))
        ensure_built(groups_for(spec), progress)
        cluster = _prepare(spec, files)
        try:
            _start(cluster, progress)
        except BaseException:
            _stop(files)
            raise
        return cluster


def down(name: str = DEFAULT_NAME, data_dir: Path | None = None) -> bool:
    """Stop the cluster and keep its data; says whether anything was running. Leaves no process behind."""
    files = ClusterFiles(cluster_folder(name, data_dir))
    with exclusive(files.lock):
        return _stop(files)


def reset(name: str = DEFAULT_NAME, data_dir: Path | None = None) -> bool:
    """Stop the cluster and wipe everything it stored; says whether there was anything."""
    files = ClusterFiles(cluster_folder(name, data_dir))
    with exclusive(files.lock):
        _stop(files)
        existed = files.spec.exists()
        _wipe(files)
        return existed


def find(name: str = DEFAULT_NAME, data_dir: Path | None = None) -> RunningCluster:
    """A cluster that was started before; raises NotRunningError when there is none in that folder."""
    folder = cluster_folder(name, data_dir)
    spec = stored_spec(folder)
    if spec is None:
        raise NotRunningError(f"there is no cluster in {folder}: start one with `grove local up`")
    return RunningCluster(spec, was_running=True)


def restart(cluster: RunningCluster, component: str) -> ComponentStatus:
    """Stop one component and start it again; it must become ready. The operator reads its configuration anew."""
    if component == "operator" and cluster.spec.operator:
        operator.write_operator_configuration(cluster.files, cluster.spec, load_ports(cluster.files.ports))
    status = supervision.restart_component(cluster.files, component)
    _require_ready(cluster.files, status)
    return status


def service_account_kubeconfig(cluster: RunningCluster, namespace: str, name: str) -> Path:
    """A kubeconfig that acts as a service account, with a fresh token valid for thirty days."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 30 * 24 * 3600},
    }
    with cluster.api() as api:
        token = api.create(path, request)["status"]["token"]
    target = cluster.files.account_kubeconfig(namespace, name)
    content = render_kubeconfig(cluster.server, f"{namespace}-{name}", token_user(token))
    write_kubeconfig(target, content)
    return target


def _prepare(spec: ClusterSpec, files: ClusterFiles) -> RunningCluster:
    """Write every file the components read."""
    from grove.localcluster.certificates import API_CLIENTS, ensure_certificates
    from grove.localcluster.stages import kwok_configuration

    files.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.configuration.mkdir(exist_ok=True)
    files.etcd.mkdir(exist_ok=True, mode=0o700)
    ensure_certificates(files.pki)
    store_ports(files.ports, pick_ports(port_names(spec), load_ports(files.ports)))
    (files.configuration / "kwok.yaml").write_text(kwok_configuration())
    files.spec.write_text(spec.to_json())
    cluster = RunningCluster(replace(spec, data_dir=files.folder))
    for identity in API_CLIENTS:
        user = certificate_user(files.pki, identity.file_name)
        content = render_kubeconfig(cluster.server, identity.user, user)
        write_kubeconfig(files.component_kubeconfig(identity.file_name), content)
        if identity.file_name == "admin":
            write_kubeconfig(files.admin_kubeconfig, content)
    return cluster


def _start(cluster: RunningCluster, progress: Progress) -> None:
    from grove.localcluster import bootstrap

    files, spec = cluster.files, cluster.spec
    supervision.start_supervisor(files)
    components = components_for(Surroundings(spec, files, load_ports(files.ports)))
    _start_wave(files, components, Wave.STORAGE, progress)
    _start_wave(files, components, Wave.API, progress)
    with cluster.api() as api, ThreadPoolExecutor(2) as beside:
        if spec.scheduler is Scheduler.KAI:
            with reporting(progress, "installing KAI's custom resources and default queue"):
                bootstrap.install_kai(api)
        # Nodes need only the API server; by the time the controllers are up they are there to be looked after.
        arranging = beside.submit(bootstrap.arrange_nodes, api, spec)
        installing = beside.submit(_install_operator, cluster, api, progress)
        _start_wave(files, components, Wave.CONTROLLERS, progress)
        arranging.result()
        installing.result()
        with reporting(progress, f"waiting for {spec.nodes} nodes"):
            bootstrap.wait_for_nodes(api, spec)
    _start_wave(files, components, Wave.GROVE, progress)


def _install_operator(cluster: RunningCluster, api: ApiServer, progress: Progress) -> None:
    """What the operator needs before it starts; without one, nothing of an earlier one may stand in the way."""
    spec, files, ports = cluster.spec, cluster.files, load_ports(cluster.files.ports)
    if not spec.operator:
        operator.remove_webhooks(api)
        return
    with reporting(progress, "installing Grove's custom resources, rights and webhooks"):
        configuration = operator.write_operator_configuration(files, spec, ports)
        operator.install(api, configuration, ports[OPERATOR_WEBHOOKS])
        service_account_kubeconfig(cluster, GROVE_NAMESPACE, OPERATOR_ACCOUNT)
        if spec.runs_pod_grouper:
            service_account_kubeconfig(cluster, GROVE_NAMESPACE, POD_GROUPER_ACCOUNT)


def _start_wave(files: ClusterFiles, components: list[Component], wave: Wave, progress: Progress) -> None:
    def start(component: Component) -> None:
        with reporting(progress, f"starting {component.name}"):
            _require_ready(files, supervision.start_component(files, component))

    members = [component for component in components if component.wave is wave]
    pool = ThreadPoolExecutor(max(1, len(members)))
    try:
        for future in as_completed([pool.submit(start, component) for component in members]):
            future.result()
    finally:
        # After a failure nobody waits for the others: stopping the cluster is what ends their start.
        pool.shutdown(wait=False, cancel_futures=True)


def _require_ready(files: ClusterFiles, status: ComponentStatus) -> None:
    if status.state is ComponentState.READY:
        return
    what = "did not become ready in time" if status.state is ComponentState.STARTING else status.ending
    log = files.log(status.name)
    raise ComponentError(f"{status.name} {what}; the end of {log}:\n{supervision.log_tail(files, status.name)}")


def _refuse_broken(files: ClusterFiles, status: SupervisorStatus) -> None:
    for component in status.components.values():
        if component.state is not ComponentState.READY:
            try:
                _require_ready(files, component)
            except ComponentError as error:
                hint = f"try `grove local restart {component.name}`, or `grove local down` and `up`"
                raise ComponentError(f"the cluster is running, but {error}\n{hint}") from None


def _wipe(files: ClusterFiles) -> None:
    """Remove what a cluster keeps and nothing else: the folder was somebody's choice and may hold other things."""
    for path in files.everything:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        files.folder.rmdir()


def _stop(files: ClusterFiles) -> bool:
    """Ask the supervisor to end everything in order; then end whatever still carries the cluster's marker."""
    if not files.folder.exists():
        return False
    marker = marker_for(files.folder)
    found = processes_of(marker)
    try:
        supervision.ask(files, {"command": "shutdown"})
    except NotRunningError:
        pass
    else:
        wait_until_gone(found, _SHUTDOWN_LIMIT)
    end_processes(marker)
    supervision.reap_supervisors()
    files.socket.unlink(missing_ok=True)
    return bool(found)
