"""The questions a client can ask, and what is being served."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, File, HTTPException, Query, UploadFile

from seesay import __version__
from seesay.web.answers import Failure, Images, Sentences, Status
from seesay.web.limits import MAX_ANSWERS, MAX_CHARACTERS
from seesay.web.service import Service

Text = Annotated[str, Query(max_length=MAX_CHARACTERS, description="a sentence that says what they show")]
Many = Annotated[int, Query(ge=1, le=MAX_ANSWERS, description="how many answers")]
Rerank = Annotated[bool, Query(description="whether the server's re-ranking run orders the best answers")]
Upload = Annotated[UploadFile, File(description="an encoded image")]

_DEFAULT_ANSWERS = 40


def question_routes(service: Service) -> APIRouter:
    """`/api/search`, `/api/similar`, `/api/sentences` and `/api/status`."""
    index, embedder = service.index, service.embedder
    failures: dict[int | str, dict[str, Any]] = {422: {"model": Failure}, 503: {"model": Failure}}
    upload_failures = failures | {413: {"model": Failure}}
    router = APIRouter(prefix="/api", tags=["questions"])

    @router.get("/search", responses=failures)
    async def search(q: Text, k: Many = _DEFAULT_ANSWERS, rerank: Rerank = False) -> Images:
        """The images that a sentence describes best."""
        if not q.strip():
            raise HTTPException(422, "The sentence is empty: say what the images show.")
        if rerank:
            return Images.reranked(*await service.reranked(lambda by: by.search(index, q, embedder, k)))
        return Images.of(*await service.timed(lambda: index.search(q, embedder, k)))

    @router.post("/similar", responses=upload_failures)
    async def similar(image: Upload, k: Many = _DEFAULT_ANSWERS) -> Images:
        """The images most like an uploaded one."""
        data = await service.uploaded(image)
        return Images.of(*await service.timed(lambda: index.similar(data, embedder, k)))

    @router.post("/sentences", responses=upload_failures)
    async def sentences(image: Upload, k: Many = 10, rerank: Rerank = False) -> Sentences:
        """The sentences that describe an uploaded image best."""
        data = await service.uploaded(image)
        if rerank:
            work = service.reranked(lambda by: by.sentences_for(index, data, embedder, k))
            return Sentences.reranked(*await work)
        return Sentences.of(*await service.timed(lambda: index.sentences_for(data, embedder, k)))

    @router.get("/status")
    async def status() -> Status:
        """What is being served."""

        def work() -> Status:
            return Status(
                images=index.count("image"),
                sentences=index.count("sentence"),
                matcher=index.embedder_name,
                generation=index.store.generation(),
                version=__version__,
                grounding=service.grounder.exists(),
                reranking=service.reranker is not None,
            )

        return await service.run(work)

    return router
