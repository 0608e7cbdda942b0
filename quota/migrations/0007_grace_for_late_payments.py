from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('quota', '0005_keep_daily_usage'),
    ]

    operations = [
        migrations.AddField(
            model_name='quotaaccount',
            name='past_due_since',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
