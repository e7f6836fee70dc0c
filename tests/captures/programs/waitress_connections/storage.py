"""The service's database and its pool of three connections."""

from __future__ import annotations

from sqlalchemy import create_engine
from sqlalchemy.pool import QueuePool

engine = create_engine(
    "sqlite://", poolclass=QueuePool, pool_size=3, max_overflow=0, connect_args={"check_same_thread": False}
)
