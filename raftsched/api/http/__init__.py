"""HTTP: connections, requests and answers, whatever they are about."""
