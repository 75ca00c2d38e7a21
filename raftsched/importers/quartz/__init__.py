"""Jobs of Quartz: `data_file` reads its XML, `exports` a query over its tables, `jobs` makes our jobs of both."""
