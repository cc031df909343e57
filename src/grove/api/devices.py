"""Kinds of other projects that tie pods to devices: NVIDIA's ComputeDomain, Kubernetes' ResourceClaim and its template.

They are read for their identity and, of a claim, for the device class it asks for; what we write are whole new objects
and patches of owner references.
"""

from __future__ import annotations

from typing import Any

from grove.api.meta import Model, ObjectMeta
from grove.runtime.resource import Resource

DEVICES_GROUP = "resource.k8s.io"
COMPUTE_DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""The driver whose devices carry the name of their domain; its device class has the same name."""


class ComputeDomain(Model):
    """GPUs on several nodes that reach each other over NVLink."""

    metadata: ObjectMeta


class DeviceClaim(Model):
    """A ResourceClaim, or the template claims are made from."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}


COMPUTE_DOMAINS = Resource("resource.nvidia.com", "v1alpha1", "computedomains", "ComputeDomain", ComputeDomain)
RESOURCE_CLAIMS = Resource(DEVICES_GROUP, "v1", "resourceclaims", "ResourceClaim", DeviceClaim)
RESOURCE_CLAIM_TEMPLATES = Resource(DEVICES_GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", DeviceClaim)
