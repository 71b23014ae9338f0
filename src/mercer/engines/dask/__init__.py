"""The engine for Dask collections. Import `mercer.engines.dask.engine` only where Dask is installed."""
