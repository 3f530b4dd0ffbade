"""A lowered group as block IR through the Builder: the three templates map, rows and tile."""
