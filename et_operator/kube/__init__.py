"""The edge: the only importer of kubernetes_asyncio and aiohttp."""
