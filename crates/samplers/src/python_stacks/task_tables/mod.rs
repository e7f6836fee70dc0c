//! Where asyncio keeps its tasks, and which of them ran lately.

pub(crate) mod running_tasks;
pub(crate) mod task_layout;
pub(crate) mod task_table;
