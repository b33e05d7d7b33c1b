"""The memory service alone, beside mem0ai: adding, searching, recalling, forgetting, and memory."""
