"""One callback from its request to its outcome, by libcurl: what worker and web share. It knows neither stores nor Flask."""
