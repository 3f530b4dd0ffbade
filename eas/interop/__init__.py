"""Where other libraries' arrays enter and leave eas."""
