"""Served indexes, their updates, and files that could not be indexed."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, HTTPException

from seesay import __version__
from seesay.data.walk import unread_lines
from seesay.errors import SeesayError
from seesay.web import log_line
from seesay.web.answers import Faults, Status, UpdateState, failures
from seesay.web.routes import TheIndex, TheService
from seesay.web.security import API
from seesay.web.service import Served, Service

router = APIRouter(prefix=API, tags=["indexes"])


@router.get("/indexes")
async def indexes(service: TheService) -> list[Status]:
    """List the served indexes that can be read."""

    def work() -> list[Status]:
        found, failures = list[Status](), list[SeesayError]()
        for served in service.served.values():
            try:
                found.append(_status(service, served))
            except SeesayError as failure:
                failures.append(failure)
                log_line(str(failure))
        if failures and not found:
            raise failures[0]
        return found

    return await service.run(work)


@router.get("/status", responses=failures(404, 422))
async def status(service: TheService, served: TheIndex) -> Status:
    """Describe an index."""
    return await service.run(lambda: _status(service, served))


@router.get("/faults", responses=failures(404, 422))
async def faults(service: TheService, served: TheIndex) -> Faults:
    """List the files that could not be indexed, or whose text could not be read, and why."""
    return Faults(index=served.name, faults=await service.run(served.updates.faults))


@router.get("/update", responses=failures(404, 422))
async def update_state(service: TheService, served: TheIndex) -> UpdateState:
    """Return the progress of the update of an index, or the outcome of the last one."""
    return await service.run(served.updates.state)


@router.post("/update", status_code=202, responses=failures(404, 409, 422))
async def update(service: TheService, served: TheIndex) -> UpdateState:
    """Start an update of an index, which embeds new and changed images and removes deleted ones."""
    if not await service.run(served.updates.folders):
        raise HTTPException(409, "The index has no folder yet; add one with seesay index PHOTOS --out INDEX.")
    if not served.updates.start():
        raise HTTPException(409, "An update of this index is running; wait until it has finished.")
    return await service.run(served.updates.state)


def _status(service: Service, served: Served) -> Status:
    index = served.index
    return Status(
        index=served.name,
        images=index.count("image"),
        sentences=index.count("sentence"),
        not_read=unread_lines(index.store.not_read(), "the server needs the extra raw"),
        absent=[root.title for root in index.absent()],
        faults=len(served.updates.faults()),
        matcher=_without_folders(index.run_name),
        version=__version__,
        is_default=served is service.find(None),
        grounding=service.grounds,
        updating=bool(served.updates.folders()),
        login=service.options.token_file is not None,
    )


def _without_folders(name: str) -> str:
    """Return the name of a run without the folders of this machine, which clients must not see."""
    library, colon, path = name.rpartition(":")
    return name if colon and not Path(path).is_absolute() else library + colon + Path(path).name
