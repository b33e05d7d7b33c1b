"""What Alembic runs for each command: our open connection, our metadata, no config file."""

from alembic import context

from inferscale_sidecar.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
# The caller owns the transaction: schema and version change together, or not at all.
context.run_migrations()
