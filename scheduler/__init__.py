"""The scheduler: one leads and keeps work on its way, others stand by."""
