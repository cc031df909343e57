"""A small controller on the runtime: a Notebook wants `pages` ConfigMaps with its text, and reports how many it has.

It is what the fault campaign torments. It does what any controller of this project does: reads only from stores, lays
its own writes over them, deletes with a UID, and writes the status last and only when it changed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.objects import ObjectMeta, namespaced_name
from grove.runtime.queue import WorkQueue
from grove.runtime.reflector import Reflector
from grove.runtime.resource import Resource
from grove.runtime.store import Store
from grove.runtime.transport import Transport
from grove.runtime.worker import DONE, Controller, Done

GROUP = "samples.grove.io"


class NotebookSpec(msgspec.Struct, frozen=True):
    pages: int = 0
    text: str = ""


class NotebookStatus(msgspec.Struct, frozen=True, rename="camel"):
    pages: int = 0
    observed_generation: int = 0


class Notebook(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: NotebookSpec = NotebookSpec()
    status: NotebookStatus = NotebookStatus()


class Page(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    data: Mapping[str, str] = {}


NOTEBOOKS = Resource(GROUP, "v1", "notebooks", "Notebook", Notebook)
PAGES = Resource("", "v1", "configmaps", "ConfigMap", Page)

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"notebooks.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "notebooks", "kind": "Notebook"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"pages": {"type": "integer"}, "text": {"type": "string"}},
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "pages": {"type": "integer"},
                                    "observedGeneration": {"type": "integer"},
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


class NotebookController:
    """Wires stores to a queue and reconciles one notebook at a time."""

    def __init__(self, transport: Transport, rng: random.Random) -> None:
        self._client = Client(transport, field_manager="notebooks", rng=rng)
        self._notebooks = Store(NOTEBOOKS)
        self._pages = Store(PAGES)
        self._pages.add_index("owner", lambda page: [owner.uid for owner in page.metadata.owner_references])
        self._queue: WorkQueue[str] = WorkQueue(rng=rng)
        self._rng = rng
        self._notebooks.subscribe(self._notebook_changed)
        self._pages.subscribe(self._page_changed)

    def _notebook_changed(self, old: Notebook | None, new: Notebook | None) -> None:
        changed = new or old
        if changed is not None:
            self._queue.add(namespaced_name(changed))

    def _page_changed(self, old: Page | None, new: Page | None) -> None:
        for page in (old, new):
            for owner in page.metadata.owner_references if page is not None else ():
                self._queue.add(f"{page.metadata.namespace}/{owner.name}" if page is not None else "")

    async def run(self) -> None:
        controller = Controller("notebooks", self._queue, self.reconcile, workers=2, grace=1.0, rng=self._rng)
        async with asyncio.TaskGroup() as tasks:
            for store in (self._notebooks, self._pages):
                tasks.create_task(Reflector(self._client, store, rng=self._rng).run())
            await self._notebooks.wait_synced()
            await self._pages.wait_synced()
            tasks.create_task(controller.run())

    async def reconcile(self, key: str) -> Done:
        notebook = self._notebooks.get(key)
        if notebook is None or notebook.metadata.terminating:
            return DONE
        held = {page.metadata.name: page for page in self._pages.by_index("owner", notebook.metadata.uid)}
        wanted = [f"{notebook.metadata.name}-{number}" for number in range(notebook.spec.pages)]
        for name in wanted:
            page = held.pop(name, None)
            if page is None or page.data != {"text": notebook.spec.text}:
                await self._write(notebook, name)
        for page in held.values():
            if not page.metadata.terminating:
                await self._remove(page)
        await self._report(notebook)
        return DONE

    async def _write(self, notebook: Notebook, name: str) -> None:
        meta = notebook.metadata
        owner = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Notebook",
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
        }
        body = {
            "metadata": {"name": name, "namespace": meta.namespace, "ownerReferences": [owner]},
            "data": {"text": notebook.spec.text},
        }
        self._pages.overlay(await self._client.send(requests.apply(PAGES, body)))

    async def _remove(self, page: Page) -> None:
        meta = page.metadata
        if await self._client.delete(PAGES, meta.namespace, meta.name, uid=meta.uid) is None:
            self._pages.overlay_deleted(page)

    async def _report(self, notebook: Notebook) -> None:
        meta = notebook.metadata
        status = NotebookStatus(notebook.spec.pages, meta.generation)
        if status == notebook.status:
            return
        patch = {"status": {"pages": status.pages, "observedGeneration": status.observed_generation}}
        request = requests.merge_patch(NOTEBOOKS, meta.namespace, meta.name, patch, subresource="status")
        self._notebooks.overlay(await self._client.send(request))
