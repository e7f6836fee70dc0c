"""Questions over the tables, statistics, and the answers as data and as text."""
