print("importing")
import broken_at_import
