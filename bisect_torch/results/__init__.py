"""Results: the journal, the Parquet file, and the key that finds an observation again."""

from bisect_torch.results.journal import Journal, JournalContent
from bisect_torch.results.key import cell_key, further_key
from bisect_torch.results.results_file import ResultsFile, how_to_make
from bisect_torch.results.schema import COLUMNS, SCHEMA_VERSION, arrow_schema, schema_table

__all__ = [
    "COLUMNS",
    "SCHEMA_VERSION",
    "Journal",
    "JournalContent",
    "ResultsFile",
    "arrow_schema",
    "cell_key",
    "further_key",
    "how_to_make",
    "schema_table",
]
