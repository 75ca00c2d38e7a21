"""The description of the API: what each operation declares, as OpenAPI and as a page."""
