"""What a process counts by itself, for whoever serves its /metrics. No stores and no web here: worker and scheduler load it too."""
