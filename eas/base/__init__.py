"""What everything else is made of: errors, settings, dtypes, types, locks."""
