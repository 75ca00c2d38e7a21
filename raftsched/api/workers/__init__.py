"""Remote workers: what they ask of a node, and what there is to see of them."""
